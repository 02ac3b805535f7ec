//! What to do in the cases where there is a choice, and the limits that hold where nobody says otherwise.

use std::time::Duration;

/// How often a deadlock or serialization failure is run again before it counts as a failed try (law 3).
pub(crate) const RERUNS_MAX: u32 = 10;
/// How long ids are remembered where nobody says otherwise.
pub(crate) const WINDOW: Duration = Duration::from_secs(7 * 24 * 3600);
/// The time limit of a handler where nobody says otherwise.
pub(crate) const TIME_LIMIT: Duration = Duration::from_secs(30);
/// How long a twin is waited for (law 8).
pub(crate) const TWIN_WAIT: Duration = Duration::from_secs(5);

/// Why a message is `stale`.
pub(crate) const STALE: &str =
    "its time is at or below the floor: its claim may have been swept, so nobody can tell whether it was processed";
/// Why a message is `future`.
pub(crate) const FUTURE: &str = "its time has not come yet: a clock is wrong, here or at the producer";

/// What to do with the same id and other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnConflict {
    /// Keep it as a dead letter `conflict`.
    #[default]
    DeadLetter,
    /// Acknowledge and count it.
    Ignore,
}

/// What to do with a kind that has no handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnUnknownKind {
    /// Keep it as a dead letter `no-handler`.
    #[default]
    DeadLetter,
    /// Acknowledge and count it; no claim is made.
    Ignore,
}

/// What to do with a message whose time is at or below the floor, or has not come yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnStale {
    /// Keep it as a dead letter `stale` or `future`.
    #[default]
    DeadLetter,
    /// Process it as if it were new.
    Process,
}
