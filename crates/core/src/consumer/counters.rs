//! What a run has done, while it runs and at its end.

use crate::permit::Outcome;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Counts that can be read while a consumer runs.
#[derive(Debug, Default)]
pub struct Progress {
    processed: AtomicU64,
    duplicates: AtomicU64,
    conflicts: AtomicU64,
    dead_lettered: AtomicU64,
    deferred: AtomicI64,
    ignored: AtomicU64,
    lost_acks: AtomicU64,
}

impl Progress {
    pub(crate) fn count(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Processed => &self.processed,
            Outcome::Duplicate => &self.duplicates,
            Outcome::Conflict => &self.conflicts,
            Outcome::DeadLettered(_) => &self.dead_lettered,
            Outcome::Ignored => &self.ignored,
            Outcome::Deferred => {
                self.deferred.fetch_add(1, Ordering::Relaxed);
                return;
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// A message that was counted as deferred is taken up again, to be counted by what becomes of it now.
    pub(crate) fn uncount_deferred(&self) {
        self.deferred.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn lost_ack(&self) {
        self.lost_acks.fetch_add(1, Ordering::Relaxed);
    }

    /// The counts of this moment.
    pub fn summary(&self, consumer: &str, took: Duration) -> Summary {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let mut summary = Summary {
            consumer: consumer.to_owned(),
            received: 0,
            processed: read(&self.processed),
            duplicates: read(&self.duplicates),
            conflicts: read(&self.conflicts),
            dead_lettered: read(&self.dead_lettered),
            deferred: u64::try_from(self.deferred.load(Ordering::Relaxed)).unwrap_or(0),
            ignored: read(&self.ignored),
            lost_acks: read(&self.lost_acks),
            took,
        };
        summary.received = summary.processed
            + summary.duplicates
            + summary.conflicts
            + summary.dead_lettered
            + summary.deferred
            + summary.ignored;
        summary
    }
}

/// What a run did. Every message counts once, by its state when the run ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The consumer's name.
    pub consumer: String,
    /// Deliveries, and waiting messages taken up from earlier runs: the sum of the six that follow.
    pub received: u64,
    /// Work done.
    pub processed: u64,
    /// Claimed before, or dead-lettered before.
    pub duplicates: u64,
    /// The same id with other content, under either policy.
    pub conflicts: u64,
    /// Set aside with a reason, conflicts not included.
    pub dead_lettered: u64,
    /// Waiting in the inbox.
    pub deferred: u64,
    /// Without a handler, where the policy says to ignore that.
    pub ignored: u64,
    /// Acknowledgements that did not arrive; their messages come again as duplicates.
    pub lost_acks: u64,
    /// How long the run took.
    pub took: Duration,
}
