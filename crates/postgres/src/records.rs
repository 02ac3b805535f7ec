//! The records beside the messages' own transactions. Each room is one file; here is only who does what.

mod crashes;
mod dead;
mod explain;
mod forget;
mod inbox;
mod names;
mod positions;
mod replay;
mod status;
mod sweep;

use crate::lane::PostgresLane;
use crate::{look, schema};
use semel_core::{
    Attempt, ClaimKey, Claimed, ConsumerNumber, ConsumerStatus, DeadFilter, Discarded, Explained, Forgotten, Instance,
    Positions, Records, Replayed, Seen, Setup, StoreError, StoredDeadLetter, SweptStep, Timestamp, Waiting,
};
use std::time::Duration;

type Answer<T> = Result<T, StoreError>;

impl Records for PostgresLane {
    async fn migrate(&mut self, setups: &[Setup]) -> Answer<()> {
        self.outside().await?;
        schema::migrate(self, setups).await
    }
    async fn check_schema(&mut self) -> Answer<()> {
        schema::check(self.outside().await?).await
    }

    async fn register(&mut self, consumer: &str, window: Option<Duration>) -> Answer<ConsumerNumber> {
        names::register(self.outside().await?, consumer, window).await
    }
    async fn consumer(&mut self, name: &str) -> Answer<Option<ConsumerNumber>> {
        names::number(self.outside().await?, name).await
    }

    async fn look(&mut self, consumer: ConsumerNumber, keys: &[ClaimKey<'_>]) -> Answer<Claimed> {
        look::look(self.outside().await?, consumer, keys).await
    }
    async fn held_keys(&mut self, consumer: ConsumerNumber, keys: &[&str]) -> Answer<Vec<String>> {
        inbox::held_keys(&mut self.conn, consumer, keys).await
    }
    async fn floor(&mut self, consumer: ConsumerNumber) -> Answer<Option<Timestamp>> {
        sweep::floor(&mut self.conn, consumer).await
    }

    async fn positions(&mut self, consumer: ConsumerNumber, source: &str) -> Answer<Positions> {
        positions::read(self.outside().await?, consumer, source).await
    }
    async fn save_positions(&mut self, consumer: ConsumerNumber, source: &str, positions: &Positions) -> Answer<()> {
        positions::save(self.outside().await?, consumer, source, positions).await
    }

    async fn beat(&mut self, consumer: ConsumerNumber, instance: &Instance) -> Answer<()> {
        crashes::beat(self.outside().await?, consumer, instance).await
    }
    async fn instances(&mut self, consumer: ConsumerNumber) -> Answer<Vec<Seen>> {
        crashes::instances(self.outside().await?, consumer).await
    }
    async fn remove_instance(&mut self, consumer: ConsumerNumber, instance: &str) -> Answer<()> {
        crashes::remove_instance(self.outside().await?, consumer, instance).await
    }
    async fn attempt(&mut self, consumer: ConsumerNumber, id: &str) -> Answer<Option<Attempt>> {
        crashes::attempt(self.outside().await?, consumer, id).await
    }
    async fn open_attempt(&mut self, consumer: ConsumerNumber, id: &str, attempt: &Attempt) -> Answer<()> {
        crashes::open_attempt(self.outside().await?, consumer, id, attempt).await
    }

    async fn due(&mut self, consumer: ConsumerNumber, max: usize) -> Answer<Vec<Waiting>> {
        inbox::due(self.outside().await?, consumer, max).await
    }
    async fn next_due(&mut self, consumer: ConsumerNumber) -> Answer<Option<Duration>> {
        inbox::next_due(self.outside().await?, consumer).await
    }

    async fn sweep(&mut self, consumer: ConsumerNumber, window: Duration, rows: u32) -> Answer<SweptStep> {
        sweep::step(self.outside().await?, consumer, window, rows).await
    }

    async fn status(&mut self) -> Answer<Vec<ConsumerStatus>> {
        status::read(self.outside().await?).await
    }
    async fn explain(&mut self, consumer: Option<&str>, id: &str) -> Answer<Vec<Explained>> {
        explain::read(self.outside().await?, consumer, id).await
    }
    async fn forget(&mut self, consumer: &str, id: &str) -> Answer<Forgotten> {
        self.outside().await?;
        forget::forget(self, consumer, id).await
    }
    async fn dead_letters(&mut self, filter: &DeadFilter, after: i64, max: usize) -> Answer<Vec<StoredDeadLetter>> {
        dead::read(self.outside().await?, filter, after, max).await
    }
    async fn discard(&mut self, number: i64) -> Answer<Discarded> {
        dead::discard(self.outside().await?, number).await
    }
    async fn replay(&mut self, number: i64, waiting: &Waiting, replaces: Option<i64>) -> Answer<Replayed> {
        self.outside().await?;
        replay::replay(self, number, waiting, replaces).await
    }
}
