//! The records beside the message's own transaction. Each method puts one room of this crate behind the contract: it opens the transaction
//! that the room needs, and puts the driver's error into words.

use crate::lane::SqliteLane;
use crate::{
    attempts, claim, dead_letter, explain, forget, inbox, names, positions, replay, schema, status, sweep, transaction,
};
use semel_core::{
    Attempt, ClaimKey, Claimed, ConsumerNumber, ConsumerStatus, DeadFilter, Discarded, Explained, Forgotten, Instance,
    Positions, Records, Replayed, Seen, Setup, StoreError, StoredDeadLetter, SweptStep, Timestamp, Waiting,
};
use std::time::Duration;

type Answer<T> = Result<T, StoreError>;

/// What runs under the write lock and commits, or says why not.
macro_rules! written {
    ($lane:ident, $room:expr) => {{
        let done = async {
            transaction::begin(&mut $lane.conn).await?;
            let answer = $room.await?;
            transaction::commit(&mut $lane.conn).await?;
            Ok(answer)
        };
        let done = done.await;
        $lane.told(done).await
    }};
}

/// What only reads, from one state of the database.
macro_rules! read {
    ($lane:ident, $room:expr) => {{
        let done = async {
            transaction::begin_reading(&mut $lane.conn).await?;
            let answer = $room.await?;
            transaction::commit(&mut $lane.conn).await?;
            Ok(answer)
        };
        let done = done.await;
        $lane.told(done).await
    }};
}

/// One statement: a transaction of its own, or a part of the open one.
macro_rules! single {
    ($lane:ident, $room:expr) => {{
        let done = $room.await;
        $lane.told(done).await
    }};
}

impl Records for SqliteLane {
    async fn migrate(&mut self, setups: &[Setup]) -> Answer<()> {
        schema::migrate(self, setups).await
    }

    async fn check_schema(&mut self) -> Answer<()> {
        single!(self, schema::check(&mut self.conn))?
    }

    async fn register(&mut self, consumer: &str, window: Option<Duration>) -> Answer<ConsumerNumber> {
        self.check_schema().await?;
        single!(self, names::register(&mut self.conn, consumer, window))
    }

    async fn consumer(&mut self, name: &str) -> Answer<Option<ConsumerNumber>> {
        let found = single!(self, names::find(&mut self.conn, name))?;
        Ok(found.map(|(number, _)| number))
    }

    async fn look(&mut self, consumer: ConsumerNumber, keys: &[ClaimKey<'_>]) -> Answer<Claimed> {
        single!(self, claim::look(&mut self.conn, consumer, keys))
    }

    async fn held_keys(&mut self, consumer: ConsumerNumber, keys: &[&str]) -> Answer<Vec<String>> {
        single!(self, inbox::held_keys(&mut self.conn, consumer, keys))
    }

    async fn floor(&mut self, consumer: ConsumerNumber) -> Answer<Option<Timestamp>> {
        single!(self, sweep::floor(&mut self.conn, consumer))
    }

    async fn positions(&mut self, consumer: ConsumerNumber, source: &str) -> Answer<Positions> {
        single!(self, positions::read(&mut self.conn, consumer, source))
    }

    async fn save_positions(&mut self, consumer: ConsumerNumber, source: &str, positions: &Positions) -> Answer<()> {
        single!(self, positions::save(&mut self.conn, consumer, source, positions))
    }

    async fn beat(&mut self, consumer: ConsumerNumber, instance: &Instance) -> Answer<()> {
        single!(self, attempts::beat(&mut self.conn, consumer, instance))
    }

    async fn instances(&mut self, consumer: ConsumerNumber) -> Answer<Vec<Seen>> {
        single!(self, attempts::instances(&mut self.conn, consumer))
    }

    async fn remove_instance(&mut self, consumer: ConsumerNumber, instance: &str) -> Answer<()> {
        single!(self, attempts::remove(&mut self.conn, consumer, instance))
    }

    async fn attempt(&mut self, consumer: ConsumerNumber, id: &str) -> Answer<Option<Attempt>> {
        single!(self, attempts::find(&mut self.conn, consumer, id))
    }

    async fn open_attempt(&mut self, consumer: ConsumerNumber, id: &str, attempt: &Attempt) -> Answer<()> {
        single!(self, attempts::open(&mut self.conn, consumer, id, attempt))
    }

    async fn due(&mut self, consumer: ConsumerNumber, max: usize) -> Answer<Vec<Waiting>> {
        single!(self, inbox::due(&mut self.conn, consumer, max))
    }

    async fn next_due(&mut self, consumer: ConsumerNumber) -> Answer<Option<Duration>> {
        single!(self, inbox::next_due(&mut self.conn, consumer))
    }

    async fn sweep(&mut self, consumer: ConsumerNumber, window: Duration, rows: u32) -> Answer<SweptStep> {
        let before = Timestamp::now().minus(window);
        written!(self, sweep::step(&mut self.conn, consumer, before, rows))
    }

    async fn status(&mut self) -> Answer<Vec<ConsumerStatus>> {
        read!(self, status::status(&mut self.conn))
    }

    async fn explain(&mut self, consumer: Option<&str>, id: &str) -> Answer<Vec<Explained>> {
        read!(self, explain::explain(&mut self.conn, consumer, id))
    }

    async fn forget(&mut self, consumer: &str, id: &str) -> Answer<Forgotten> {
        written!(self, forget::forget(&mut self.conn, consumer, id))
    }

    async fn dead_letters(&mut self, filter: &DeadFilter, after: i64, max: usize) -> Answer<Vec<StoredDeadLetter>> {
        single!(self, dead_letter::list(&mut self.conn, filter, after, max))
    }

    async fn discard(&mut self, number: i64) -> Answer<Discarded> {
        written!(self, dead_letter::discard(&mut self.conn, number))
    }

    async fn replay(&mut self, number: i64, waiting: &Waiting, replaces: Option<i64>) -> Answer<Replayed> {
        written!(self, replay::replay(&mut self.conn, number, waiting, replaces))
    }
}
