//! The handle on a store, and the one-call forms.

use crate::broker::{Delivery, Settle};
use crate::claim::{ClaimWait, Claims, ConsumerNumber};
use crate::dead_letter::Reason;
use crate::error::{HandlerResult, ProcessError, Wish};
use crate::handler::{Handled, WorkFn};
use crate::identity::{Identity, Incoming};
use crate::lanes::{Guest, Lanes};
use crate::message::Envelope;
use crate::permit::AckPermit;
use crate::policy::{FUTURE, OnConflict, OnStale, RERUNS_MAX, STALE, TIME_LIMIT, TWIN_WAIT, WINDOW};
use crate::process::{Failure, Passage, Passenger, Stopped, Work, guarded};
use crate::records::Records;
use crate::retry::backoff;
use crate::store::{Lane, Store, StoreError, Trouble, Writes};
use crate::time::Timestamp;
use crate::tx::Tx;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The handle on a store: cheap to clone, shares its connections.
///
/// ```no_run
/// # use semel_core::*;
/// # async fn example<S: Store>(store: S, delivery: Envelope) -> Result<(), ProcessError> {
/// let semel = Semel::new(store);
/// semel.migrate(&[]).await?;
/// let permit = semel.process("billing", &delivery, async |tx| {
///     // Everything written through tx.conn() is committed together with the claim.
///     Ok(())
/// }).await?;
/// # drop(permit); Ok(()) }
/// ```
pub struct Semel<S: Store> {
    pub(crate) lanes: Arc<Lanes<S>>,
    numbers: Arc<Mutex<HashMap<String, ConsumerNumber>>>,
}

impl<S: Store> Clone for Semel<S> {
    fn clone(&self) -> Self {
        Semel { lanes: self.lanes.clone(), numbers: self.numbers.clone() }
    }
}

/// What can be processed in one call: an [`Envelope`] that you filled yourself, or a [`Delivery`].
pub trait Deliverable: Sync {
    /// The message.
    fn envelope(&self) -> &Envelope;
    /// What ties the permit to it; 0 where nothing will ask for it.
    #[doc(hidden)]
    fn token(&self) -> u64 {
        0
    }
}
impl Deliverable for Envelope {
    fn envelope(&self) -> &Envelope {
        self
    }
}
impl<K: Settle> Deliverable for Delivery<K> {
    fn envelope(&self) -> &Envelope {
        self
    }
    fn token(&self) -> u64 {
        Delivery::token(self)
    }
}

impl<S: Store> Semel<S> {
    /// A handle on `store`. Connects when it is first used.
    pub fn new(store: S) -> Self {
        Semel { lanes: Lanes::new(store), numbers: Arc::default() }
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.lanes.store
    }

    /// Brings the tables to this program's version; any number of processes may do so at once. Runs each setup once per database.
    pub async fn migrate(&self, setups: &[crate::Setup]) -> Result<(), StoreError> {
        let mut lane = self.lane().await?;
        lane.migrate(setups).await?;
        lane.done();
        Ok(())
    }

    /// A connection for [`Records`]; call [`Guest::done`] when all went well, or drop it.
    pub async fn lane(&self) -> Result<Guest<S>, StoreError> {
        self.lanes.guest().await
    }

    /// The database's clock (law 23).
    pub async fn now(&self) -> Result<Timestamp, StoreError> {
        let lane = self.lane().await?;
        let now = lane.now();
        lane.done();
        Ok(now)
    }

    /// Registers a consumer's name, outside any work's transaction (law 2). `process` and `Consumer` do it by themselves.
    pub async fn register(&self, consumer: &str, window: Option<Duration>) -> Result<ConsumerNumber, StoreError> {
        let mut lane = self.lane().await?;
        let number = lane.register(consumer, window).await?;
        lane.done();
        self.numbers().insert(consumer.to_owned(), number);
        Ok(number)
    }

    fn numbers(&self) -> std::sync::MutexGuard<'_, HashMap<String, ConsumerNumber>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn number(&self, consumer: &str) -> Result<ConsumerNumber, StoreError> {
        let known = self.numbers().get(consumer).copied();
        match known {
            Some(number) => Ok(number),
            None => self.register(consumer, None).await,
        }
    }

    /// Deletes the claims of a consumer that are older than its window, in bounded steps; answers how many (laws 24 and 25).
    pub async fn sweep(&self, consumer: &str, window: Duration) -> Result<u64, StoreError> {
        let number = self.number(consumer).await?;
        crate::retention::sweep(&self.lanes, number, window).await
    }

    /// Claims `message` for `consumer` and runs `work` in the same transaction, unless it was done before. Returns the permit that your own
    /// ack needs, after COMMIT; its [`outcome`](AckPermit::outcome) says what happened. For those who have a loop of their own.
    ///
    /// `work` may run more than once (a fresh clone each time, in a fresh transaction, after a deadlock); its effects in the store happen
    /// once. Without an id, with an invalid one, or in conflict with an earlier content, the message becomes a dead letter and the permit says
    /// so. Nothing is tried again and nothing is deferred: on `Err` do not acknowledge, and the broker's redelivery is the next try.
    pub async fn process(
        &self,
        consumer: &str,
        message: &impl Deliverable,
        work: impl WorkFn<S, ()>,
    ) -> Result<AckPermit, ProcessError> {
        let number = self.number(consumer).await?;
        let passage = Passage {
            lanes: self.lanes.clone(),
            consumer: number,
            window: WINDOW,
            time_limit: TIME_LIMIT,
            holds: false,
            on_conflict: OnConflict::DeadLetter,
            on_stale: OnStale::DeadLetter,
            instance: String::new(),
        };
        let incoming = match Identity::default().identify(message.envelope().clone()) {
            Ok(incoming) => Incoming { token: message.token(), ..incoming },
            Err(refused) => {
                let mut permits = passage.bury_refused(&[(&refused, message.token())]).await.map_err(told)?;
                return Ok(permits.remove(0));
            }
        };
        let passenger = Passenger { message: &incoming, waiting: None, careful: false };
        if passage.is_ahead_of_time(&incoming, self.now().await?) {
            return passage.bury(passenger, Reason::Future, 0, FUTURE.to_owned()).await.map_err(told);
        }
        let (mut reruns, mut hoped) = (0, None);
        loop {
            match passage.pass(&[passenger], &Once(work.clone()), ClaimWait::Claim(TWIN_WAIT)).await {
                Ok(mut passed) => {
                    let permit = passed.permits.remove(0);
                    return Ok(permit.after_unknown(hoped));
                }
                Err(Stopped::Stale(_)) => {
                    return passage.bury(passenger, Reason::Stale, 0, STALE.to_owned()).await.map_err(told);
                }
                Err(Stopped::Rerun(_)) if reruns < RERUNS_MAX => {}
                Err(Stopped::Unknown(_, outcomes)) if reruns < RERUNS_MAX => {
                    hoped = hoped.or(outcomes.first().copied())
                }
                Err(stopped) => return Err(told(stopped)),
            }
            reruns += 1;
            tokio::time::sleep(backoff(reruns, Duration::from_millis(5), Duration::from_secs(1))).await;
        }
    }

    /// A transaction without a message: for a web request or a job. The same proof before COMMIT, the same re-runs, the same time limit.
    /// Without a claim an unknown outcome of COMMIT stays unknown: it is returned as an error of the store.
    pub async fn transaction<T: Send>(&self, work: impl WorkFn<S, T>) -> Result<T, ProcessError> {
        let claims = Claims {
            consumer: ConsumerNumber(0),
            keys: &[],
            wait: ClaimWait::Claim(TWIN_WAIT),
            time_limit: TIME_LIMIT,
        };
        let mut reruns = 0;
        loop {
            let (mut open, _) = self.lanes.begin(&claims).await?;
            let done = {
                let mut tx = Tx::new(open.lane().conn());
                guarded(TIME_LIMIT, work.clone()(&mut tx)).await
            };
            let again = match done {
                Ok(value) => match open.commit(&Writes::default()).await {
                    Ok(_) => return Ok(value),
                    Err(error) if error.trouble == Trouble::Rerun => error.into(),
                    Err(error) => return Err(ProcessError::Store(error)),
                },
                Err(Failure::Error(error)) => {
                    let rerun = S::trouble(&*error.source) == Trouble::Rerun;
                    open.rollback().await?;
                    if !rerun {
                        return Err(told(Stopped::Failed(Failure::Error(error))));
                    }
                    error
                }
                Err(failure) => return Err(told(Stopped::Failed(failure))),
            };
            reruns += 1;
            if reruns > RERUNS_MAX {
                return Err(told(Stopped::Failed(Failure::Error(again))));
            }
            tokio::time::sleep(backoff(reruns, Duration::from_millis(5), Duration::from_secs(1))).await;
        }
    }
}

/// One closure as the work of one message.
struct Once<F>(F);
impl<S: Store, F: WorkFn<S, ()>> Work<S> for Once<F> {
    fn run<'a, 't: 'a>(&'a self, tx: &'a mut Tx<'t, S>, fresh: &'a [&'t Incoming]) -> Handled<'a> {
        tx.turn_to(fresh[0]);
        let work: std::pin::Pin<Box<dyn Future<Output = HandlerResult> + Send + 'a>> = Box::pin((self.0.clone())(tx));
        work
    }
}

fn told(stopped: Stopped) -> ProcessError {
    match stopped {
        Stopped::Busy => ProcessError::Busy,
        Stopped::Unreachable(error) | Stopped::Broken(error) | Stopped::Unknown(error, _) => ProcessError::Store(error),
        Stopped::Rerun(text) => ProcessError::Failed { source: text.clone().into(), text },
        Stopped::Stale(_) => ProcessError::Failed { text: STALE.to_owned(), source: STALE.into() },
        Stopped::Failed(Failure::Panicked(text)) => ProcessError::Panicked(text),
        Stopped::Failed(Failure::TimedOut(limit)) => ProcessError::TimedOut(limit),
        Stopped::Failed(Failure::Error(error)) => {
            let (text, wish, source) = (error.text(), error.wish, error.source);
            match wish {
                Wish::Bury(_) => ProcessError::Rejected { text, source },
                Wish::Retry(_) => ProcessError::Failed { text, source },
            }
        }
    }
}
