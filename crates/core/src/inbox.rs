//! Messages that were claimed and wait: deferred after a failure, or behind one that is.

use crate::fingerprint::Fingerprint;
use crate::message::Envelope;
use crate::time::Timestamp;
use std::time::Duration;

/// A message in the inbox. Its claim stands; its work is still to be done.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// The message id.
    pub id: String,
    /// The kind.
    pub kind: String,
    /// The ordering key.
    pub key: Option<String>,
    /// The message's time.
    pub time: Option<Timestamp>,
    /// What the content was.
    pub fingerprint: Fingerprint,
    /// Tries so far.
    pub attempts: u32,
    /// Whether later messages of its key wait behind it.
    pub holds: bool,
    /// How long it waits, from the store's now.
    pub delay: Duration,
    /// Why it waits; empty where it only stands behind another.
    pub error: String,
    /// The process that put it there, so that a run counts each message once.
    pub instance: String,
    /// What came.
    pub envelope: Envelope,
}

/// A waiting message that failed once more and goes on waiting.
#[derive(Debug, Clone)]
pub struct Retried {
    /// The message id.
    pub id: String,
    /// Tries so far, this one included.
    pub attempts: u32,
    /// How long it waits, from the store's now.
    pub delay: Duration,
    /// Why.
    pub error: String,
}
