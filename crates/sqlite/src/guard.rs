//! What SQLite's hooks see of a transaction: whether somebody else ends it, and whether anybody still waits for it.

use sqlx::SqliteConnection;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// How often SQLite asks whether to go on, in steps of its virtual machine: every 0.1 ms or so of work. The cost is below what could be
/// measured (350 ms with and without, for a query of 36 million steps); at 1,000 it would be 1 to 2 %.
const STEPS: i32 = 10_000;

/// How long after the time limit of the transaction SQLite itself stops: core's own limit comes first, and says more.
const GRACE: Duration = Duration::from_secs(1);

/// No transaction of a message is open: semel's own statements commit as they like.
const FREE: u8 = 0;
/// A transaction is open and lent to a handler: no commit is ours.
const OPEN: u8 = 1;
/// The proof was given and our COMMIT is on its way.
const ENDING: u8 = 2;

/// How a transaction was broken by its handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It sent a COMMIT, or a statement after the transaction had ended.
    Commit,
    /// The transaction was rolled back under it.
    Rollback,
}

/// Shared between a lane and the hooks of its connection.
#[derive(Debug)]
pub(crate) struct Guard {
    state: AtomicU8,
    committed: AtomicBool,
    rolled_back: AtomicBool,
    gone: AtomicBool,
    /// Milliseconds after `born`; `u64::MAX`: none.
    deadline: AtomicU64,
    born: Instant,
}

impl Guard {
    /// Installs the hooks. They run on SQLite's own thread, in the order of the statements, so that a statement which a handler sent and
    /// did not wait for is judged by what holds when it runs.
    pub(crate) async fn install(conn: &mut SqliteConnection) -> sqlx::Result<Arc<Guard>> {
        let guard = Arc::new(Guard {
            state: AtomicU8::new(FREE),
            committed: AtomicBool::new(false),
            rolled_back: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            deadline: AtomicU64::new(u64::MAX),
            born: Instant::now(),
        });
        let mut handle = conn.lock_handle().await?;
        let hook = guard.clone();
        handle.set_commit_hook(move || hook.may_commit());
        let hook = guard.clone();
        handle.set_rollback_hook(move || hook.note_rollback());
        let hook = guard.clone();
        handle.set_progress_handler(STEPS, move || hook.may_go_on());
        Ok(guard)
    }

    /// From here on every commit on this connection is refused, those of single statements outside a transaction too.
    pub(crate) fn open(&self, time_limit: Option<Duration>) {
        self.committed.store(false, SeqCst);
        self.rolled_back.store(false, SeqCst);
        self.deadline.store(time_limit.map_or(u64::MAX, |limit| self.millis_after(limit)), SeqCst);
        self.state.store(OPEN, SeqCst);
    }

    /// The handler has returned: what follows is semel's own, and takes the time that it needs.
    pub(crate) fn handled(&self) {
        self.deadline.store(u64::MAX, SeqCst);
    }

    /// The next COMMIT is ours. It is refused all the same where the transaction was broken before it.
    pub(crate) fn ending(&self) {
        self.state.store(ENDING, SeqCst);
    }

    /// The transaction is over.
    pub(crate) fn free(&self) {
        self.state.store(FREE, SeqCst);
    }

    /// Nobody waits for this connection any more: a running statement stops at the next question.
    pub(crate) fn leave(&self) {
        self.gone.store(true, SeqCst);
    }

    /// Whether the open transaction is no longer the one that was begun.
    pub(crate) fn broken(&self) -> Option<Broken> {
        match (self.committed.load(SeqCst), self.rolled_back.load(SeqCst)) {
            (true, _) => Some(Broken::Commit),
            (false, true) => Some(Broken::Rollback),
            (false, false) => None,
        }
    }

    fn may_commit(&self) -> bool {
        match self.state.load(SeqCst) {
            FREE => true,
            ENDING => semel_core::planted("no-proof") || self.broken().is_none(),
            _ => {
                // Unless the transaction was rolled back before: then this is a later statement on its own, and not the cause.
                if !self.rolled_back.load(SeqCst) {
                    self.committed.store(true, SeqCst);
                }
                false
            }
        }
    }

    fn note_rollback(&self) {
        if self.state.load(SeqCst) != FREE {
            self.rolled_back.store(true, SeqCst);
        }
    }

    fn may_go_on(&self) -> bool {
        !self.gone.load(SeqCst)
            && self.millis_after(Duration::ZERO) < self.deadline.load(SeqCst).saturating_add(millis(GRACE))
    }

    fn millis_after(&self, later: Duration) -> u64 {
        millis(self.born.elapsed()).saturating_add(millis(later))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
