//! Everything that can be set on a consumer, with its defaults in one place.

use crate::identity::Identity;
use crate::policy::{OnConflict, OnStale, OnUnknownKind, TIME_LIMIT, WINDOW};
use crate::retry::RetryPlan;
use std::time::Duration;

/// The settings of a consumer. Each has the meaning and the default that the configuration file of `semel run` documents.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How messages are read.
    pub identity: Identity,
    /// Batches in work at once. Default 4.
    pub lanes: usize,
    /// Most messages in one transaction. Default 100.
    pub max_batch: usize,
    /// A handler's time limit. Default 30 s.
    pub timeout: Duration,
    /// How long an id is remembered after semel let go of the message. Default 7 days.
    pub window: Duration,
    /// What follows a failure.
    pub retry: RetryPlan,
    /// Whether later messages of a key wait behind a deferred one. Default true; means nothing without a key.
    pub hold: bool,
    /// The same id with other content.
    pub on_conflict: OnConflict,
    /// A kind without a handler.
    pub on_unknown_kind: OnUnknownKind,
    /// A message that is too old to judge, or from the future.
    pub on_stale: OnStale,
    /// Most deliveries in hand. Default lanes × max_batch (set to 0 for it).
    pub prefetch: usize,
    /// How long a stop waits for what is in work. Default 30 s.
    pub grace: Duration,
    /// How many processes a message may kill before it is a dead letter. Default 3.
    pub max_crashes: u32,
    /// Stop when most messages end in one refusal reason (law 31). Default true.
    pub brake: bool,
    /// Stop when nothing came for this long. Default: never.
    pub until_idle: Option<Duration>,
    /// Give up when the store cannot be reached for this long. Default: never, but 60 s for sources that end.
    pub give_up: Option<Duration>,
    /// Ignore stored positions and read from the beginning. Default false.
    pub from_start: bool,
    /// Sweep old ids while running (law 24). Default true.
    pub sweep: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            identity: Identity::default(),
            lanes: 4,
            max_batch: 100,
            timeout: TIME_LIMIT,
            window: WINDOW,
            retry: RetryPlan::default(),
            hold: true,
            on_conflict: OnConflict::DeadLetter,
            on_unknown_kind: OnUnknownKind::DeadLetter,
            on_stale: OnStale::DeadLetter,
            prefetch: 0,
            grace: Duration::from_secs(30),
            max_crashes: 3,
            brake: true,
            until_idle: None,
            give_up: None,
            from_start: false,
            sweep: true,
        }
    }
}

impl Settings {
    pub(crate) fn prefetch(&self) -> usize {
        match self.prefetch {
            0 => self.lanes.saturating_mul(self.max_batch),
            prefetch => prefetch,
        }
    }
}
