//! Where deliveries are answered: the one thing that a subscription shares with the deliveries it gave out.

use crate::acknowledged::Acknowledged;
use crate::position::{Mark, Position};
use semel_core::{AckPermit, Cut, Settle, Settled};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// With so many lines, or so many bytes in them, given back and not yet delivered again, nothing new is read.
const RETURNED_LINES_MAX: usize = 10_000;
const RETURNED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// A line as it is delivered, and delivered again.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) line: u64,
    pub(crate) body: Box<[u8]>,
    pub(crate) cut: Option<Cut>,
}

/// The open deliveries of one subscription.
pub(crate) struct Desk {
    state: Mutex<State>,
    /// A line came back, or the last open delivery was answered.
    changed: Notify,
}

struct State {
    acknowledged: Acknowledged<Mark>,
    /// Lines that were given back, by the number of their delivery, and when they are due.
    returned: BTreeMap<u64, (Instant, Kept)>,
    returned_bytes: usize,
    /// The subscription is gone, and with it whoever would ask for the position.
    closed: bool,
}

impl Desk {
    pub(crate) fn starting_at(start: Mark) -> Self {
        let acknowledged = Acknowledged::starting_at(start);
        let state = State { acknowledged, returned: BTreeMap::new(), returned_bytes: 0, closed: false };
        Desk { state: Mutex::new(state), changed: Notify::new() }
    }

    /// A new line goes out. Answers the number of its delivery.
    pub(crate) fn deliver(&self, behind: Mark) -> u64 {
        self.state().acknowledged.deliver(behind)
    }

    /// The first line that was given back and is due.
    pub(crate) fn deliver_again(&self) -> Option<(u64, Kept)> {
        let mut state = self.state();
        if state.returned.is_empty() {
            return None;
        }
        let now = Instant::now();
        let number = state.returned.iter().find_map(|(number, (due, _))| (*due <= now).then_some(*number))?;
        let (_, kept) = state.returned.remove(&number)?;
        state.returned_bytes -= kept.body.len();
        state.acknowledged.deliver_again();
        Some((number, kept))
    }

    /// Whether every delivery was answered, and none of them will come again.
    pub(crate) fn is_clear(&self) -> bool {
        let state = self.state();
        state.acknowledged.in_work() == 0 && state.returned.is_empty()
    }

    /// Whether so much waits to be delivered again that nothing new should be read.
    pub(crate) fn is_full(&self) -> bool {
        let state = self.state();
        state.returned.len() >= RETURNED_LINES_MAX || state.returned_bytes >= RETURNED_BYTES_MAX
    }

    /// Waits until a line has come back and is due, or all deliveries are answered. May return early.
    pub(crate) async fn changed(&self) {
        let due = self.state().returned.values().map(|(due, _)| *due).min();
        match due {
            None => self.changed.notified().await,
            Some(due) => tokio::select! {
                () = self.changed.notified() => {}
                () = sleep_until(due) => {}
            },
        }
    }

    /// Up to where everything is acknowledged.
    pub(crate) fn position(&self) -> Option<Position> {
        let mark = self.state().acknowledged.position().clone();
        mark.position()
    }

    /// The subscription ends.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        state.returned.clear();
    }

    fn acknowledge(&self, number: u64) -> Settled {
        let mut state = self.state();
        state.acknowledged.acknowledge(number);
        self.notify_if_clear(&state);
        answer(&state)
    }

    fn give_back(&self, number: u64, kept: Kept, delay: Duration) -> Settled {
        let mut state = self.state();
        state.acknowledged.give_back();
        if !state.closed {
            let now = Instant::now();
            // A delay that reaches beyond the clock is as good as a long one.
            let due = now.checked_add(delay).unwrap_or(now + Duration::from_secs(86_400));
            state.returned_bytes += kept.body.len();
            state.returned.insert(number, (due, kept));
            self.changed.notify_one();
        }
        answer(&state)
    }

    fn abandon(&self, number: u64) {
        let mut state = self.state();
        state.acknowledged.abandon(number);
        self.notify_if_clear(&state);
    }

    fn notify_if_clear(&self, state: &State) {
        if state.acknowledged.in_work() == 0 {
            self.changed.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(state: &State) -> Settled {
    if state.closed { Settled::Lost } else { Settled::Confirmed }
}

/// How one line is answered. `Confirmed` says that the position counts the answer; it is durable once the position is stored. `Lost`: the
/// subscription is gone.
///
/// A line that was given back comes again through [`next`](semel_core::Subscription::next) after its delay, before lines that were never
/// delivered. Dropped without an answer, the line comes again when the source is next read: the position stays before it.
#[must_use = "a dropped delivery is never acknowledged"]
pub struct FileSettle {
    desk: Arc<Desk>,
    number: u64,
    /// Until it is answered. The delivery owns its own copy of the body, and the contract does not hand it back.
    kept: Option<Kept>,
}

impl FileSettle {
    pub(crate) fn new(desk: Arc<Desk>, number: u64, kept: Kept) -> Self {
        FileSettle { desk, number, kept: Some(kept) }
    }

    pub(crate) fn acknowledge(mut self) -> Settled {
        self.kept = None;
        self.desk.acknowledge(self.number)
    }

    pub(crate) fn give_back(mut self, delay: Duration) -> Settled {
        match self.kept.take() {
            Some(kept) => self.desk.give_back(self.number, kept, delay),
            None => Settled::Lost,
        }
    }
}

impl Settle for FileSettle {
    async fn ack(self, _: AckPermit) -> Settled {
        self.acknowledge()
    }

    async fn back(self, delay: Duration) -> Settled {
        self.give_back(delay)
    }
}

impl Drop for FileSettle {
    fn drop(&mut self) {
        if self.kept.is_some() {
            self.desk.abandon(self.number);
        }
    }
}

impl std::fmt::Debug for FileSettle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileSettle").field("line", &self.kept.as_ref().map(|kept| kept.line)).finish_non_exhaustive()
    }
}
