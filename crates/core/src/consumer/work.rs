//! A delivery on its way through a lane.

use crate::broker::Answer;
use crate::identity::{Incoming, Refused};
use crate::process::Passenger;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;

/// A message with an id, and everything that its lane must know of it.
pub(crate) struct Work<K> {
    pub(crate) message: Incoming,
    pub(crate) from: Origin<K>,
    /// Handled singly, with its attempt written down first (law 15).
    pub(crate) careful: bool,
    /// Failed tries, those of earlier runs included.
    pub(crate) tries: u32,
    /// Re-runs after deadlocks, broken connections and unknown outcomes of the present try.
    pub(crate) reruns: u32,
    /// How often it was set aside because a twin was in work.
    pub(crate) waits: u32,
    /// A COMMIT had no answer: if the claim stands, it was ours.
    pub(crate) unsure: bool,
    /// Further deliveries of the same message in the same batch: they share its fate.
    pub(crate) twins: Vec<(Answer<K>, Slot)>,
    pub(crate) slot: Slot,
}

/// Where a message came from.
pub(crate) enum Origin<K> {
    Broker(Answer<K>),
    Inbox {
        /// Tries when it was taken up.
        attempts: u32,
        /// Whether this run counted it when it was put there.
        counted: bool,
    },
    /// Acknowledged already: only a planted bug does that.
    Answered,
}

impl<K> Work<K> {
    /// Takes in a twin from the same batch, so that it shares this one's fate. A message with other content is given back.
    pub(crate) fn adopt(&mut self, twin: Box<Work<K>>) -> Result<(), Box<Work<K>>> {
        if !self.message.fingerprint.matches(twin.message.fingerprint) {
            return Err(twin);
        }
        let Work { from, slot, twins, .. } = *twin;
        if let Origin::Broker(answer) = from {
            self.twins.push((answer, slot));
        }
        self.twins.extend(twins);
        Ok(())
    }

    pub(crate) fn passenger(&self) -> Passenger<'_> {
        let waiting = match self.from {
            Origin::Broker(_) | Origin::Answered => None,
            Origin::Inbox { attempts, .. } => Some(attempts),
        };
        Passenger { message: &self.message, waiting, careful: self.careful }
    }
}

/// A delivery without an id.
pub(crate) struct RefusedWork<K> {
    pub(crate) refused: Refused,
    pub(crate) answer: Answer<K>,
    pub(crate) _slot: Slot,
}

/// What a lane is sent.
pub(crate) enum Item<K> {
    Known(Box<Work<K>>),
    Refused(Box<RefusedWork<K>>),
}

/// What is in hand: bounds the pulling by number and by bytes.
#[derive(Debug, Default)]
pub(crate) struct InHand {
    count: AtomicUsize,
    bytes: AtomicUsize,
    pub(crate) changed: Notify,
}

impl InHand {
    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Slot {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        Slot { in_hand: self.clone(), bytes }
    }
}

/// One place in hand; given back when dropped.
pub(crate) struct Slot {
    in_hand: Arc<InHand>,
    bytes: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.in_hand.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.in_hand.count.fetch_sub(1, Ordering::AcqRel);
        self.in_hand.changed.notify_one();
    }
}
