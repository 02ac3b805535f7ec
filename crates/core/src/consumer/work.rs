//! A delivery on its way through a lane.

use crate::broker::Answer;
use crate::identity::{Incoming, Refused};
use crate::permit::Outcome;
use crate::process::Passenger;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
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
    /// A COMMIT had no answer: if the claim stands, it was ours, and this is what it made of the message.
    pub(crate) hoped: Option<Outcome>,
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
    pub(crate) refused: Box<Refused>,
    pub(crate) answer: Answer<K>,
    pub(crate) _slot: Slot,
}

/// What a lane is sent.
pub(crate) enum Item<K> {
    Known(Box<Work<K>>),
    Refused(Box<RefusedWork<K>>),
}

/// What is in hand: bounds the pulling by number and by bytes, and says which lane has what.
#[derive(Debug)]
pub(crate) struct InHand {
    count: AtomicUsize,
    bytes: AtomicUsize,
    lanes: Box<[AtomicUsize]>,
    /// Lanes of the ids in hand, by their hash: a twin goes where its twin is.
    ids: Mutex<HashMap<u64, (usize, u32)>>,
    /// Told when there is room for a batch again, not for every single place.
    room_at: usize,
    pub(crate) changed: Notify,
}

impl InHand {
    /// `room_at`: how few must be in hand for more to be pulled.
    pub(crate) fn new(lanes: usize, room_at: usize) -> Self {
        InHand {
            count: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            lanes: (0..lanes).map(|_| AtomicUsize::new(0)).collect(),
            ids: Mutex::default(),
            room_at,
            changed: Notify::new(),
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    /// Whether more is pulled while this many are in hand. Always leaves room for one.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        count <= self.room_at
    }

    /// The lane with the least to do.
    pub(crate) fn idlest(&self) -> usize {
        (0..self.lanes.len()).min_by_key(|&lane| self.lanes[lane].load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Takes a place for a message that may go to any lane: its twin's, or else `free`.
    pub(crate) fn take_any(self: &Arc<Self>, bytes: usize, id: u64, free: usize) -> Slot {
        let lane = {
            let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
            let (lane, twins) = ids.entry(id).or_insert((free, 0));
            *twins += 1;
            *lane
        };
        self.take(bytes, lane, Some(id))
    }

    /// Takes a place in a lane.
    pub(crate) fn take_in(self: &Arc<Self>, bytes: usize, lane: usize) -> Slot {
        self.take(bytes, lane, None)
    }

    fn take(self: &Arc<Self>, bytes: usize, lane: usize, id: Option<u64>) -> Slot {
        self.count.fetch_add(1, Ordering::AcqRel);
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        self.lanes[lane].fetch_add(1, Ordering::Relaxed);
        Slot { in_hand: self.clone(), bytes, lane, id }
    }
}

/// One place in hand; given back when dropped.
pub(crate) struct Slot {
    in_hand: Arc<InHand>,
    bytes: usize,
    pub(crate) lane: usize,
    id: Option<u64>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let InHand { count, bytes, lanes, ids, room_at, changed } = &*self.in_hand;
        if let Some(id) = self.id {
            let mut ids = ids.lock().unwrap_or_else(PoisonError::into_inner);
            if let Entry::Occupied(mut twins) = ids.entry(id) {
                twins.get_mut().1 -= 1;
                if twins.get().1 == 0 {
                    twins.remove();
                }
            }
        }
        lanes[self.lane].fetch_sub(1, Ordering::Relaxed);
        bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        if count.fetch_sub(1, Ordering::AcqRel) <= room_at + 1 {
            changed.notify_one();
        }
    }
}
