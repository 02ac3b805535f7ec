//! Core's own pool: a lane is owned by value by whoever drives it, and comes back only by a commit or rollback that returned `Ok`.
//!
//! So cancellation needs no shield: a future dropped anywhere drops the lane, and a dropped lane closes its connection (law 16).

use crate::claim::{Claimed, Claims};
use crate::store::{Lane, Store, StoreError, Trouble, Writes, Written};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// An idle connection is closed after this long.
const IDLE_MAX: Duration = Duration::from_secs(1);
/// A store that answers nothing for this long, beyond what a transaction may take, counts as unreachable.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(15);

pub(crate) struct Lanes<S: Store> {
    pub(crate) store: S,
    idle: Mutex<Vec<(S::Lane, Instant)>>,
    free: Arc<Semaphore>,
}

/// An open transaction, owned. Dropped before `commit` or `rollback` has succeeded: its connection closes.
pub(crate) struct Open<S: Store> {
    guest: Guest<S>,
}

/// A lane that is used outside a message's transaction. Dropped without [`done`](Guest::done), its connection closes.
pub struct Guest<S: Store> {
    lane: S::Lane,
    home: Arc<Lanes<S>>,
    _slot: OwnedSemaphorePermit,
}

impl<S: Store> Lanes<S> {
    pub(crate) fn new(store: S) -> Arc<Self> {
        let free = Arc::new(Semaphore::new(store.lanes_max().max(1)));
        Arc::new(Lanes { store, idle: Mutex::new(Vec::new()), free })
    }

    fn pop(&self) -> Option<S::Lane> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop().map(|(lane, _)| lane)
    }

    fn push(self: &Arc<Self>, lane: S::Lane) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.is_empty() {
            tokio::spawn(close_idle(Arc::downgrade(self)));
        }
        idle.push((lane, Instant::now()));
    }

    async fn slot(&self) -> OwnedSemaphorePermit {
        self.free.clone().acquire_owned().await.expect("the semaphore is never closed")
    }

    async fn connect(&self) -> Result<S::Lane, StoreError> {
        in_time(SILENCE_MAX, self.store.connect()).await
    }

    /// A lane for records; an idle one may have died unseen, and then the first use of it fails.
    pub(crate) async fn guest(self: &Arc<Self>) -> Result<Guest<S>, StoreError> {
        let slot = self.slot().await;
        let lane = match self.pop() {
            Some(lane) => lane,
            None => self.connect().await?,
        };
        Ok(Guest { lane, home: self.clone(), _slot: slot })
    }

    /// A new connection, whatever lies idle: for finding out whether the store can be reached.
    pub(crate) async fn knock(self: &Arc<Self>) -> Result<(), StoreError> {
        let slot = self.slot().await;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        let lane = self.connect().await?;
        Guest { lane, home: self.clone(), _slot: slot }.done();
        Ok(())
    }

    /// Whether the store answers a new connection within this time; beside the lanes, which may all be in use.
    pub(crate) async fn answers(&self, limit: Duration) -> Result<(), StoreError> {
        in_time(limit, self.store.connect()).await.map(drop)
    }

    pub(crate) async fn begin(self: &Arc<Self>, claims: &Claims<'_>) -> Result<(Open<S>, Claimed), StoreError> {
        let slot = self.slot().await;
        let limit = SILENCE_MAX + claims.time_limit;
        if let Some(mut lane) = self.pop() {
            match in_time(limit, lane.begin(claims)).await {
                Ok(claimed) => return Ok((Open { guest: Guest { lane, home: self.clone(), _slot: slot } }, claimed)),
                // It died unseen: nothing was done on it, so once more on a new one.
                Err(error) if error.trouble == Trouble::Unreachable => drop(lane),
                Err(error) => return Err(error),
            }
        }
        let mut lane = self.connect().await?;
        let claimed = in_time(limit, lane.begin(claims)).await?;
        Ok((Open { guest: Guest { lane, home: self.clone(), _slot: slot } }, claimed))
    }
}

impl<S: Store> Open<S> {
    pub(crate) fn lane(&mut self) -> &mut S::Lane {
        &mut self.guest.lane
    }

    pub(crate) async fn commit(mut self, writes: &Writes) -> Result<Written, StoreError> {
        let written = in_time(SILENCE_MAX, self.guest.lane.commit(writes)).await?;
        self.guest.done();
        Ok(written)
    }

    pub(crate) async fn rollback(mut self) -> Result<(), StoreError> {
        in_time(SILENCE_MAX, self.guest.lane.rollback()).await?;
        self.guest.done();
        Ok(())
    }
}

impl<S: Store> Guest<S> {
    /// Gives the lane back. Not called after an error: then dropping it closes the connection.
    pub fn done(self) {
        self.home.push(self.lane);
    }
}

impl<S: Store> Deref for Guest<S> {
    type Target = S::Lane;
    fn deref(&self) -> &S::Lane {
        &self.lane
    }
}
impl<S: Store> DerefMut for Guest<S> {
    fn deref_mut(&mut self) -> &mut S::Lane {
        &mut self.lane
    }
}

pub(crate) async fn in_time<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, work).await {
        Ok(answer) => answer,
        Err(_) => {
            Err(StoreError::new(Trouble::Unreachable, format!("the store gave no answer for {} s", limit.as_secs())))
        }
    }
}

/// Asks the store's records on a lane of its own, and gives the lane back. A connection that gives no answer is closed, not waited for.
macro_rules! ask {
    ($lanes:expr, $lane:ident => $question:expr) => {{
        let mut guest = $lanes.guest().await?;
        let answer = {
            let $lane = &mut *guest;
            crate::lanes::in_time(crate::lanes::SILENCE_MAX, $question).await?
        };
        guest.done();
        answer
    }};
}
pub(crate) use ask;

async fn close_idle<S: Store>(lanes: Weak<Lanes<S>>) {
    loop {
        tokio::time::sleep(IDLE_MAX / 2).await;
        let Some(lanes) = lanes.upgrade() else { return };
        let mut idle = lanes.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(_, since)| since.elapsed() < IDLE_MAX);
        if idle.is_empty() {
            return;
        }
    }
}
