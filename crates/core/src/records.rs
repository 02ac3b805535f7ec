//! The store's records beside the message's own transaction: names, positions, attempts, what is due, and what an operator asks for.

use crate::broker::Positions;
use crate::claim::{ClaimKey, Claimed, ConsumerNumber};
use crate::dead_letter::StoredDeadLetter;
use crate::inbox::Waiting;
use crate::instance::{Instance, Seen};
use crate::operate::{ConsumerStatus, DeadFilter, Discarded, Explained, Forgotten, SweptStep};
use crate::store::StoreError;
use crate::time::Timestamp;
use std::future::Future;
use std::time::Duration;

type Answer<T> = Result<T, StoreError>;

/// Each method is a transaction of its own, unless it says otherwise. A lane is used for one of them at a time, and is dropped after an error.
pub trait Records {
    // ---- the schema

    /// Brings semel's tables to this program's version, under a lock: any number of processes may do so at once. Then runs each setup that
    /// has not been run on this database (told by its name and content), in order, under the same lock.
    fn migrate(&mut self, setups: &[Setup]) -> impl Future<Output = Answer<()>> + Send;

    /// Whether the schema is the one that this program knows; an error with [`Trouble::Schema`](crate::Trouble::Schema) otherwise.
    fn check_schema(&mut self) -> impl Future<Output = Answer<()>> + Send;

    // ---- names

    /// The number of a consumer's name, which is registered if it is new; its window is stored for the sweep of any process.
    fn register(
        &mut self,
        consumer: &str,
        window: Option<Duration>,
    ) -> impl Future<Output = Answer<ConsumerNumber>> + Send;

    /// The number of a name that may not be registered.
    fn consumer(&mut self, name: &str) -> impl Future<Output = Answer<Option<ConsumerNumber>>> + Send;

    // ---- looking before claiming

    /// What is known of these ids, without claiming: `Fresh` where there is no claim. Writes nothing.
    fn look(&mut self, consumer: ConsumerNumber, keys: &[ClaimKey<'_>])
    -> impl Future<Output = Answer<Claimed>> + Send;

    /// Which of these keys are held by a waiting message. Inside the lane's open transaction.
    fn held_keys(
        &mut self,
        consumer: ConsumerNumber,
        keys: &[&str],
    ) -> impl Future<Output = Answer<Vec<String>>> + Send;

    /// The consumer's floor, in a statement of its own inside the lane's open transaction (law 26).
    fn floor(&mut self, consumer: ConsumerNumber) -> impl Future<Output = Answer<Option<Timestamp>>> + Send;

    // ---- positions

    /// The stored positions of a source.
    fn positions(&mut self, consumer: ConsumerNumber, source: &str) -> impl Future<Output = Answer<Positions>> + Send;

    /// Stores positions. Units that are not named stay as they are.
    fn save_positions(
        &mut self,
        consumer: ConsumerNumber,
        source: &str,
        positions: &Positions,
    ) -> impl Future<Output = Answer<()>> + Send;

    // ---- crashes (law 15)

    /// Writes down that this process lives, or that it still does.
    fn beat(&mut self, consumer: ConsumerNumber, instance: &Instance) -> impl Future<Output = Answer<()>> + Send;

    /// All processes that are written down for this consumer.
    fn instances(&mut self, consumer: ConsumerNumber) -> impl Future<Output = Answer<Vec<Seen>>> + Send;

    /// Removes a process that ended well, or whose end was dealt with.
    fn remove_instance(&mut self, consumer: ConsumerNumber, instance: &str) -> impl Future<Output = Answer<()>> + Send;

    /// The open attempt at a message, if there is one.
    fn attempt(&mut self, consumer: ConsumerNumber, id: &str) -> impl Future<Output = Answer<Option<Attempt>>> + Send;

    /// Writes down that a process is about to run the handler for this message.
    fn open_attempt(
        &mut self,
        consumer: ConsumerNumber,
        id: &str,
        attempt: &Attempt,
    ) -> impl Future<Output = Answer<()>> + Send;

    // ---- the inbox

    /// Waiting messages that are due and not held by an earlier one of their key, in order; at most `max`. Locks nothing.
    fn due(&mut self, consumer: ConsumerNumber, max: usize) -> impl Future<Output = Answer<Vec<Waiting>>> + Send;

    /// How long until the next waiting message is due; `None` when none waits.
    fn next_due(&mut self, consumer: ConsumerNumber) -> impl Future<Output = Answer<Option<Duration>>> + Send;

    // ---- retention

    /// Deletes at most `rows` claims that are older than the consumer's window and whose message neither waits nor is a dead letter; the
    /// floor is written and committed first (laws 24–26).
    fn sweep(
        &mut self,
        consumer: ConsumerNumber,
        window: Duration,
        rows: u32,
    ) -> impl Future<Output = Answer<SweptStep>> + Send;

    // ---- what an operator asks for

    /// One line a consumer.
    fn status(&mut self) -> impl Future<Output = Answer<Vec<ConsumerStatus>>> + Send;

    /// Everything known of one message id, for one consumer or all.
    fn explain(&mut self, consumer: Option<&str>, id: &str) -> impl Future<Output = Answer<Vec<Explained>>> + Send;

    /// Removes the claim of a message that is done, so that it can be processed again (law 28), and raises the consumer's epoch.
    fn forget(&mut self, consumer: &str, id: &str) -> impl Future<Output = Answer<Forgotten>> + Send;

    /// Dead letters, oldest first, from number `after` on; at most `max`.
    fn dead_letters(
        &mut self,
        filter: &DeadFilter,
        after: i64,
        max: usize,
    ) -> impl Future<Output = Answer<Vec<StoredDeadLetter>>> + Send;

    /// Removes a dead letter: the message is done with, its claim is stamped anew. `fingerprint`-exact by its number.
    fn discard(&mut self, number: i64) -> impl Future<Output = Answer<Discarded>> + Send;

    /// Puts a dead letter back as a waiting message, in one transaction: the claim is made where the letter had none, `waiting` goes to the
    /// inbox, the letter is removed. Where the id is claimed by another message the answer says so, and nothing changes.
    /// `replaces` names the dead letter of that other message, which goes when it is given.
    fn replay(
        &mut self,
        number: i64,
        waiting: &Waiting,
        replaces: Option<i64>,
    ) -> impl Future<Output = Answer<Replayed>> + Send;
}

/// SQL that an application wants to run once on a database, e.g. its own tables.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Its name: the path as written in the configuration.
    pub name: String,
    /// The statements.
    pub sql: String,
}

/// An attempt that was begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attempt {
    /// The process that began it.
    pub instance: String,
    /// How many processes died in it before.
    pub crashes: u32,
}

/// What became of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replayed {
    /// It waits in the inbox, due now.
    Waits,
    /// The dead letter is not there any more.
    Gone,
    /// Another message has the claim of this id.
    Claimed,
}
