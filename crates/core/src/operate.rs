//! What an operator asks of a store, and what it answers.

use crate::dead_letter::Reason;
use crate::fingerprint::Fingerprint;
use crate::time::Timestamp;
use std::time::Duration;

/// One consumer in `semel status`.
#[derive(Debug, Clone)]
pub struct ConsumerStatus {
    /// Its name.
    pub consumer: String,
    /// Its window, where one was registered.
    pub window: Option<Duration>,
    /// Ids that are remembered.
    pub claims: u64,
    /// When the oldest of them was claimed.
    pub oldest_claim: Option<Timestamp>,
    /// Messages in the inbox.
    pub waiting: u64,
    /// Of these, how many are due.
    pub due: u64,
    /// Dead letters by reason; only those that there are.
    pub dead: Vec<(Reason, u64)>,
    /// At or below this time nobody can tell whether a message was processed.
    pub floor: Option<Timestamp>,
    /// Positions: source, unit, position.
    pub positions: Vec<(String, String, String)>,
    /// Processes that are written down, with the time since their last sign of life.
    pub instances: Vec<(String, Duration)>,
}

/// Everything known of one id for one consumer, in `semel explain`.
#[derive(Debug, Clone)]
pub struct Explained {
    /// The consumer's name.
    pub consumer: String,
    /// The claim, if there is one.
    pub claim: Option<ExplainedClaim>,
    /// The waiting message, if it waits.
    pub waiting: Option<ExplainedWaiting>,
    /// Its dead letters.
    pub dead: Vec<crate::StoredDeadLetter>,
}

/// A claim, as `explain` shows it.
#[derive(Debug, Clone, Copy)]
pub struct ExplainedClaim {
    /// When it was made, or stamped anew.
    pub claimed_at: Timestamp,
    /// Of what content.
    pub fingerprint: Fingerprint,
    /// The message's time.
    pub time: Option<Timestamp>,
}

/// A waiting message, as `explain` shows it.
#[derive(Debug, Clone)]
pub struct ExplainedWaiting {
    /// The kind.
    pub kind: String,
    /// The ordering key.
    pub key: Option<String>,
    /// Tries so far.
    pub attempts: u32,
    /// When it is tried next, if nothing holds it.
    pub due_at: Timestamp,
    /// The last error.
    pub error: String,
    /// Since when it waits.
    pub since: Timestamp,
}

/// Which dead letters.
#[derive(Debug, Clone, Default)]
pub struct DeadFilter {
    /// Of this consumer.
    pub consumer: Option<String>,
    /// With this reason.
    pub reason: Option<Reason>,
    /// With this message id, or these coordinates.
    pub reference: Option<String>,
    /// With this number.
    pub number: Option<i64>,
}

/// What became of a `forget`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forgotten {
    /// The claim is gone: the next copy is processed.
    Done,
    /// There is no such consumer or no such claim.
    Unknown,
    /// The message waits in the inbox: nothing was changed (law 28).
    Waits,
    /// The message is a dead letter: nothing was changed; replay or discard it.
    Dead,
}

/// What became of a `discard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discarded {
    /// It is gone.
    Done,
    /// There is no such dead letter.
    Unknown,
}

/// One bounded step of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SweptStep {
    /// Claims that were deleted.
    pub deleted: u64,
    /// Whether old claims are left for another step.
    pub more: bool,
}
