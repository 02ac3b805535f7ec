//! The Broker contract: where messages come from, and how one is answered.

use crate::message::Envelope;
use crate::permit::AckPermit;
use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

/// An error of a broker, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// It cannot be reached; worth trying again.
    #[error("{0}")]
    Unreachable(String),
    /// It will fail again in the same way: wrong address, no such queue, no permission.
    #[error("{0}")]
    Broken(String),
    /// A permit was used for a delivery that it does not belong to. The delivery stays unanswered and will come again.
    #[error("the permit belongs to another delivery")]
    WrongPermit,
}

/// Where messages come from: a description (`file::source("payments.jsonl")`) that can be connected as often as needed.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a source of messages",
    note = "pass e.g. `semel::file::source(\"payments.jsonl\")`"
)]
pub trait Source: Send + Sync + 'static {
    /// An open connection.
    type Subscription: Subscription;

    /// A name for people and for stored positions; the same for every process that reads the same source. No secrets.
    fn name(&self) -> String;

    /// What this broker can do.
    fn features(&self) -> Features;

    /// Connects. `positions` are those that [`Subscription::positions`] gave earlier, kept in the store.
    fn subscribe(&self, positions: &Positions) -> impl Future<Output = Result<Self::Subscription, BrokerError>> + Send;
}

/// What a broker can do; drives the loop, the contract suite and the docs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Features {
    /// Whether the source ends by itself, as a file does.
    pub ends: bool,
    /// Whether it says which deliveries may have been delivered before.
    pub redelivery: Redelivery,
}

/// How much a broker knows of earlier deliveries (law 15).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redelivery {
    /// Each delivery says whether it may be a repeat.
    Told,
    /// Nobody knows: the first deliveries after every assignment are handled with care.
    Unknown,
    /// Only one process reads, from a stored position: a repeat comes only after an unclean end.
    ByPosition,
}

/// Positions of a source by unit (a partition; "" where there is one): opaque texts that only the broker's crate reads.
pub type Positions = BTreeMap<String, String>;

/// An open connection to a source.
pub trait Subscription: Send + 'static {
    /// How its deliveries are answered.
    type Settle: Settle;

    /// What already waits, 1 to `max`; waits for the first only. Empty: the source has ended. Must be safe to drop at any await.
    fn next(&mut self, max: usize) -> impl Future<Output = Result<Vec<Delivery<Self::Settle>>, BrokerError>> + Send;

    /// The position up to which everything is acknowledged, without gaps, where this source is read by position. Empty elsewhere.
    fn positions(&mut self) -> Positions {
        Positions::new()
    }
}

/// Answers the broker for one delivery, on the delivery's own channel or connection (law 12). Dropped: unanswered, it will come again.
pub trait Settle: Send + Sync + 'static {
    /// Acknowledges. The permit is the proof that nothing is lost by it.
    fn ack(self, permit: AckPermit) -> impl Future<Output = Settled> + Send;

    /// Gives it back unprocessed, to come again after about `delay` where the broker can wait. Not a failure of the message.
    fn back(self, delay: Duration) -> impl Future<Output = Settled> + Send;
}

/// What is known of an answer. None of them rolls anything back: a redelivery is a duplicate (law 12).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    /// The broker said that it has it.
    Confirmed,
    /// Sent; this broker does not say more.
    Sent,
    /// It did not arrive: the message will come again.
    Lost,
}

/// One delivery of a message, with the means to answer it.
#[derive(Debug)]
pub struct Delivery<K> {
    envelope: Envelope,
    settle: K,
    token: u64,
    /// Whether the broker says that it may have been delivered before. `None`: it cannot say.
    pub redelivered: Option<bool>,
    /// The unit within which the source keeps order (partition, group, session), if it has any.
    pub unit: Option<String>,
}

impl<K: Settle> Delivery<K> {
    /// A delivery of `envelope`.
    pub fn new(envelope: Envelope, settle: K) -> Self {
        Delivery { envelope, settle, token: crate::identity::token(), redelivered: None, unit: None }
    }

    /// Acknowledges this delivery. A permit of another delivery is refused, and this one stays unanswered.
    pub async fn ack(self, permit: AckPermit) -> Result<Settled, BrokerError> {
        if !permit.fits(self.token) {
            return Err(BrokerError::WrongPermit);
        }
        Ok(self.settle.ack(permit).await)
    }

    /// Gives it back unprocessed.
    pub async fn back(self, delay: Duration) -> Settled {
        self.settle.back(delay).await
    }

    pub(crate) fn token(&self) -> u64 {
        self.token
    }

    pub(crate) fn split(self) -> (Envelope, Answer<K>) {
        (self.envelope, Answer { settle: self.settle, token: self.token })
    }
}

impl<K> Deref for Delivery<K> {
    type Target = Envelope;
    fn deref(&self) -> &Envelope {
        &self.envelope
    }
}

/// The half of a delivery that is still to be answered.
#[derive(Debug)]
pub(crate) struct Answer<K> {
    settle: K,
    token: u64,
}

impl<K: Settle> Answer<K> {
    pub(crate) fn token(&self) -> u64 {
        self.token
    }
    pub(crate) async fn ack(self, permit: AckPermit) -> Settled {
        debug_assert!(permit.fits(self.token));
        self.settle.ack(permit).await
    }
    pub(crate) async fn back(self, delay: Duration) -> Settled {
        self.settle.back(delay).await
    }
}
