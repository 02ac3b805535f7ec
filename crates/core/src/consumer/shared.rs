//! What all lanes of a consumer know together: the hallway, the counts, the brake, and whether the store can be reached.

use crate::consumer::brake::Brake;
use crate::consumer::counters::Progress;
use crate::consumer::run_error::RunError;
use crate::consumer::settings::Settings;
use crate::consumer::stop::Stop;
use crate::consumer::work::InHand;
use crate::handler::{Handled, Handlers};
use crate::identity::Incoming;
use crate::instance::Instance;
use crate::permit::Outcome;
use crate::process::{Passage, Work};
use crate::retry::backoff;
use crate::store::{Store, StoreError, Trouble};
use crate::time::Timestamp;
use crate::tx::Tx;
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, RwLock};

pub(crate) struct Shared<S: Store> {
    pub(crate) name: String,
    pub(crate) passage: Passage<S>,
    pub(crate) handlers: Handlers<S>,
    pub(crate) settings: Settings,
    pub(crate) progress: Arc<Progress>,
    pub(crate) in_hand: Arc<InHand>,
    pub(crate) me: Instance,
    /// Stop taking up work: asked from outside, or because the run failed.
    pub(crate) stop: Stop,
    /// The inbox may have something due.
    pub(crate) look_at_inbox: Notify,
    /// Waiting messages that are in a lane of this process.
    pub(crate) taken: Mutex<HashSet<String>>,
    /// A message with an open attempt is handled alone: if the process dies, nobody else is blamed.
    pub(crate) alone: RwLock<()>,
    /// The database's clock against this machine's, in milliseconds.
    pub(crate) clock_offset: AtomicI64,
    careful_left: AtomicUsize,
    said_failed: AtomicBool,
    /// Messages whose attempt is open in the store.
    attempts: Mutex<HashSet<String>>,
    brake: Mutex<Brake>,
    outage: Mutex<Option<Instant>>,
    failure: Mutex<Option<RunError>>,
}

impl<S: Store> Shared<S> {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn new(
        name: String,
        passage: Passage<S>,
        handlers: Handlers<S>,
        settings: Settings,
        progress: Arc<Progress>,
        me: Instance,
        now: Timestamp,
    ) -> Self {
        let prefetch = settings.prefetch();
        let batch = settings.max_batch.min(prefetch / 4).max(1);
        let in_hand = Arc::new(InHand::new(settings.lanes, prefetch - batch.min(prefetch)));
        Shared {
            name,
            passage,
            handlers,
            settings,
            progress,
            in_hand,
            me,
            stop: Stop::new(),
            look_at_inbox: Notify::new(),
            taken: Mutex::default(),
            alone: RwLock::new(()),
            clock_offset: AtomicI64::new(now.as_millis() - Timestamp::now().as_millis()),
            careful_left: AtomicUsize::new(0),
            said_failed: AtomicBool::new(false),
            attempts: Mutex::default(),
            brake: Mutex::default(),
            outage: Mutex::default(),
            failure: Mutex::default(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from_millis(Timestamp::now().as_millis() + self.clock_offset.load(Ordering::Relaxed))
    }

    /// The database's clock, just read.
    pub(crate) fn told_time(&self, now: Timestamp) {
        self.clock_offset.store(now.as_millis() - Timestamp::now().as_millis(), Ordering::Relaxed);
    }

    /// Counts a message, and stops the run when the brake says so.
    pub(crate) fn count(&self, outcome: Outcome) {
        self.progress.count(outcome);
        let refusal = match outcome {
            Outcome::DeadLettered(reason) => Some(reason),
            Outcome::Processed | Outcome::Ignored => None,
            Outcome::Duplicate | Outcome::Conflict | Outcome::Deferred => return,
        };
        if let (true, Some(reason)) = (self.settings.brake, lock(&self.brake).note(refusal)) {
            self.fail(RunError::Brake { consumer: self.name.clone(), reason });
        }
    }

    /// The run is over; the first error stays.
    pub(crate) fn fail(&self, error: RunError) {
        lock(&self.failure).get_or_insert(error);
        self.stop.stop();
    }

    pub(crate) fn failure(&self) -> Option<RunError> {
        lock(&self.failure).take()
    }

    pub(crate) fn store_is_out(&self) -> bool {
        lock(&self.outage).is_some()
    }

    /// Waits until the store can be reached again, or the run is stopped: then `false`. Says so once per change. Nothing is
    /// dead-lettered and no attempt is counted meanwhile (law 14).
    pub(crate) async fn wait_for_store(&self, error: StoreError) -> bool {
        if error.trouble == Trouble::Schema {
            self.fail(RunError::Store(error));
            return false;
        }
        let since = self.went_out(&error);
        let mut error = error;
        for round in 1.. {
            if self.settings.give_up.is_some_and(|limit| since.elapsed() >= limit) {
                self.fail(RunError::Store(error));
                return false;
            }
            tokio::select! {
                () = tokio::time::sleep(backoff(round, Duration::from_millis(100), Duration::from_secs(2))) => {}
                () = self.stop.stopped() => return false,
            }
            match self.passage.lanes.knock().await {
                Ok(()) => break,
                Err(knocked) => error = knocked,
            }
        }
        true
    }

    fn went_out(&self, error: &StoreError) -> Instant {
        let mut outage = lock(&self.outage);
        *outage.get_or_insert_with(|| {
            tracing::warn!(consumer = %self.name, "the store does not take messages; trying again until it does: {error}");
            Instant::now()
        })
    }

    /// A transaction went through: whatever was wrong with the store is over.
    pub(crate) fn store_works(&self) {
        let over = lock(&self.outage).take();
        if let Some(since) = over {
            tracing::info!(consumer = %self.name, "the store takes messages again, after {:.1} s", since.elapsed().as_secs_f64());
            self.in_hand.changed.notify_one();
        }
    }

    /// Whether the next delivery is handled with care (law 15).
    pub(crate) fn is_careful(&self) -> bool {
        self.careful_left.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn be_careful(&self) {
        self.careful_left.store(self.settings.prefetch(), Ordering::Relaxed);
    }

    /// Once a run, and without the error's text, which may hold what a message says.
    pub(crate) fn say_that_one_failed(&self, id: &str) {
        if !self.said_failed.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                consumer = %self.name,
                "a handler failed; its message is tried again as the retry plan says, and the error is kept with it: `semel explain` {id:?} \
                 (further failures of this run are not said)"
            );
        }
    }

    pub(crate) fn attempts(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.attempts)
    }

    /// Known duplicates do not count: the message that killed the last process may come after many of them.
    pub(crate) fn handled_with_care(&self) {
        let _ = self.careful_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
    }

    /// Whether most of what ends now is refused: then positions are not stored, so that a stop by the brake leaves them unmoved.
    pub(crate) fn is_suspicious(&self) -> bool {
        self.settings.brake && lock(&self.brake).is_suspicious()
    }

    pub(crate) fn taken(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.taken)
    }
}

impl<S: Store> Work<S> for Handlers<S> {
    fn run<'a, 't: 'a>(&'a self, tx: &'a mut Tx<'t, S>, fresh: &'a [&'t Incoming]) -> Handled<'a> {
        Box::pin(self.handle(tx, fresh))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
