//! The claim: the one primitive. A key, taken in the same transaction as the work; the store's primary key is the referee (law 1).

use crate::fingerprint::Fingerprint;
use std::time::Duration;

/// A consumer's number in the store: names are registered once, and claims carry the number (law 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConsumerNumber(pub i32);

/// What one transaction asks for.
#[derive(Debug, Clone, Copy)]
pub struct Claims<'a> {
    /// For whom.
    pub consumer: ConsumerNumber,
    /// Sorted by the bytes of the id, each id once (law 4). None: a transaction without a claim.
    pub keys: &'a [ClaimKey<'a>],
    /// How long the claim waits for a twin.
    pub wait: ClaimWait,
    /// How long the transaction may run; the store sets its own limits from it, as a second line behind core's (law 13).
    pub time_limit: Duration,
}

/// One id to claim.
#[derive(Debug, Clone, Copy)]
pub struct ClaimKey<'a> {
    /// The message id.
    pub id: &'a str,
    /// Stored with a fresh claim, compared with an old one.
    pub fingerprint: Fingerprint,
    /// The message's time, stored with the claim: what the floor is made of (law 26).
    pub time: Option<crate::Timestamp>,
    /// Set where the claim was made before and its message waits in the inbox: the row with this many attempts is locked instead.
    pub waiting: Option<u32>,
}

/// How long to wait for somebody else's locks (law 8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClaimWait {
    /// The claim alone waits at most this long; the handler's own waiting is its own affair.
    Claim(Duration),
    /// Every lock of the whole transaction waits at most this long: a batch must not stand behind a twin.
    Transaction(Duration),
}

/// What the store says to one key, in the order of the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Claim {
    /// Ours to process, if this transaction commits.
    Fresh,
    /// Claimed before with a fingerprint that matches. Of a waiting row: somebody else has it, or has finished it.
    Duplicate,
    /// Claimed before with another fingerprint.
    Conflict,
}

/// Answer to [`Claims`].
#[derive(Debug, Clone, Default)]
pub struct Claimed {
    /// One for each key, in their order.
    pub claims: Vec<Claim>,
    /// Whether some message of this consumer that holds its key waits in the inbox, so that keys must be looked at.
    pub keys_held: bool,
}
