//! The hallway: claim → handle → flush → prove → commit → permit. It stands once; lanes, inbox and the one-call forms walk through it.
//!
//! The stations in order: [`Passage::pass`] claims ([`Lanes::begin`]), looks at the floor, hands the fresh messages to the work under a time
//! limit and a panic guard, and commits ([`Lane::commit`](crate::Lane::commit): flush, prove, COMMIT). Only behind that are permits made.

use crate::claim::{Claim, ClaimKey, ClaimWait, Claimed, Claims, ConsumerNumber};
use crate::dead_letter::{DeadLetter, Reason};
use crate::error::{HandlerError, HandlerResult, Wish};
use crate::handler::Handled;
use crate::identity::{Incoming, Refused};
use crate::inbox::{Retried, Waiting};
use crate::lanes::{Lanes, Open, SILENCE_MAX, in_time};
use crate::permit::{AckPermit, Outcome};
use crate::policy::{OnConflict, OnStale, TWIN_WAIT};
use crate::probe;
use crate::records::Records;
use crate::store::{Lane, Store, StoreError, Trouble, Writes};
use crate::time::Timestamp;
use crate::tx::Tx;
use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// The most that clocks may differ: a time is `stale` up to this much above the floor, and `future` this much after now (law 26).
const SKEW_MAX: Duration = Duration::from_secs(5 * 60);

/// What is the same for every message of one consumer.
pub(crate) struct Passage<S: Store> {
    pub(crate) lanes: Arc<Lanes<S>>,
    pub(crate) consumer: ConsumerNumber,
    pub(crate) window: Duration,
    pub(crate) time_limit: Duration,
    /// Later messages of a key wait behind a deferred one.
    pub(crate) holds: bool,
    pub(crate) on_conflict: OnConflict,
    pub(crate) on_stale: OnStale,
    /// This process, written with what it puts into the inbox.
    pub(crate) instance: String,
}

/// A message on its way, with what is known of it besides its content.
#[derive(Clone, Copy)]
pub(crate) struct Passenger<'a> {
    pub(crate) message: &'a Incoming,
    /// Tries so far, where it comes from the inbox.
    pub(crate) waiting: Option<u32>,
    /// Whether an open attempt is to be closed with it.
    pub(crate) careful: bool,
}

/// Work for the fresh ones of a batch.
pub(crate) trait Work<S: Store>: Sync {
    fn run<'a, 't: 'a>(&'a self, tx: &'a mut Tx<'t, S>, fresh: &'a [&'t Incoming]) -> Handled<'a>;
}

/// A batch that went through.
pub(crate) struct Passed {
    /// One for each passenger, in order.
    pub(crate) permits: Vec<AckPermit>,
    /// From the claim to just before COMMIT: what grows with the batch.
    pub(crate) took: Duration,
}

/// A batch that did not. Nothing was changed, except where the outcome is unknown.
#[derive(Debug)]
pub(crate) enum Stopped {
    /// Deadlock or serialization failure: again, in a new transaction.
    Rerun(String),
    /// A twin holds a claim.
    Busy,
    /// The store cannot be reached, or fails for everybody; nothing was done.
    Unreachable(StoreError),
    /// The connection broke while the work ran; nothing was done.
    Broken(StoreError),
    /// The connection broke in COMMIT: claiming again decides (law 7). With what each passenger became if it was committed.
    Unknown(StoreError, Vec<Outcome>),
    /// These passengers, by index, are at or below the floor.
    Stale(Vec<usize>),
    /// The work failed.
    Failed(Failure),
}

/// How the work failed.
#[derive(Debug)]
pub(crate) enum Failure {
    Error(HandlerError),
    Panicked(String),
    TimedOut(Duration),
}

impl Failure {
    pub(crate) fn text(&self) -> String {
        match self {
            Failure::Error(error) => error.text(),
            Failure::Panicked(text) => format!("the handler panicked: {text}"),
            Failure::TimedOut(limit) => format!("the handler took longer than its limit of {limit:?}"),
        }
    }

    pub(crate) fn wish(&self) -> Wish {
        match self {
            Failure::Error(error) => error.wish,
            Failure::Panicked(_) | Failure::TimedOut(_) => Wish::Retry(None),
        }
    }
}

impl<S: Store> Passage<S> {
    /// Takes a batch through. Ids must differ within the batch (law 4).
    pub(crate) async fn pass(
        &self,
        batch: &[Passenger<'_>],
        work: &impl Work<S>,
        wait: ClaimWait,
    ) -> Result<Passed, Stopped> {
        let started = Instant::now();
        let (mut open, claimed) = self.claim(batch, wait).await?;
        let now = open.lane().now();
        let fresh_at = |claimed: &Claimed| -> Vec<usize> {
            (0..batch.len()).filter(|&at| claimed.claims[at] == Claim::Fresh).collect()
        };
        let mut fresh = fresh_at(&claimed);
        self.refuse_stale(batch, &fresh, now, &mut open).await?;
        let behind = self.behind_a_held_key(batch, &fresh, &claimed, &mut open).await?;
        fresh.retain(|at| !behind.contains(at));

        let mut writes = Writes::default();
        for &at in &behind {
            let error = "waits behind an earlier message of its key".to_owned();
            writes.waiting.push(self.waiting(batch[at].message, 0, Duration::ZERO, error));
            writes.closed.extend(batch[at].careful.then(|| batch[at].message.id.clone()));
        }
        let conflicts = (0..batch.len()).filter(|&at| claimed.claims[at] == Claim::Conflict);
        if self.on_conflict == OnConflict::DeadLetter {
            writes.dead.extend(conflicts.map(|at| conflict(batch[at].message)));
        }
        for &at in &fresh {
            let Passenger { message, waiting, careful } = batch[at];
            writes.finished.extend(waiting.map(|_| message.id.clone()));
            writes.closed.extend(careful.then(|| message.id.clone()));
        }

        if !fresh.is_empty() {
            let messages: Vec<&Incoming> = fresh.iter().map(|&at| batch[at].message).collect();
            let mut tx = Tx::new(open.lane().conn());
            let done = guarded(self.time_limit, work.run(&mut tx, &messages)).await;
            if let Err(failure) = done {
                return Err(self.stop(open, failure).await);
            }
            probe::point("after-handle");
        }
        let took = started.elapsed();
        let outcome = |at: usize| match claimed.claims[at] {
            Claim::Fresh if behind.contains(&at) => Outcome::Deferred,
            Claim::Fresh => Outcome::Processed,
            Claim::Duplicate => Outcome::Duplicate,
            Claim::Conflict => Outcome::Conflict,
        };
        let mut outcomes: Vec<Outcome> = (0..batch.len()).map(outcome).collect();
        let seen_before = match fresh.is_empty() && writes.is_empty() {
            true => {
                open.rollback().await.map_err(Stopped::Unreachable)?;
                Vec::new()
            }
            false => self.commit(open, &writes, &outcomes).await?,
        };
        // The dead letters of this commit are its conflicts, in order: those that had been there before are duplicates.
        let conflicts = outcomes.iter_mut().filter(|outcome| **outcome == Outcome::Conflict);
        conflicts.zip(seen_before).filter(|(_, seen)| *seen).for_each(|(outcome, _)| *outcome = Outcome::Duplicate);
        let permit = |(passenger, outcome): (&Passenger<'_>, Outcome)| AckPermit::new(passenger.message.token, outcome);
        Ok(Passed { permits: batch.iter().zip(outcomes).map(permit).collect(), took })
    }

    async fn claim(&self, batch: &[Passenger<'_>], wait: ClaimWait) -> Result<(Open<S>, Claimed), Stopped> {
        let mut order: Vec<usize> = (0..batch.len()).collect();
        order.sort_unstable_by(|&a, &b| batch[a].message.id.as_bytes().cmp(batch[b].message.id.as_bytes()));
        let keys: Vec<ClaimKey<'_>> = order.iter().map(|&at| key_of(&batch[at])).collect();
        debug_assert!(keys.windows(2).all(|pair| pair[0].id < pair[1].id), "each id once in a batch");
        probe::point("before-claim");
        let (open, sorted) = self.begin(&keys, wait).await?;
        probe::point("after-claim");
        let mut claims = vec![Claim::Duplicate; batch.len()];
        for (at, claim) in order.into_iter().zip(sorted.claims) {
            claims[at] = claim;
        }
        Ok((open, Claimed { claims, keys_held: sorted.keys_held }))
    }

    async fn begin(&self, keys: &[ClaimKey<'_>], wait: ClaimWait) -> Result<(Open<S>, Claimed), Stopped> {
        let claims = Claims { consumer: self.consumer, keys, wait, time_limit: self.time_limit };
        if probe::planted("claim-elsewhere") && !keys.is_empty() {
            let (open, claimed) = self.lanes.begin(&claims).await.map_err(before_work)?;
            open.commit(&Writes::default()).await.map_err(before_work)?;
            let (open, _) = self.lanes.begin(&Claims { keys: &[], ..claims }).await.map_err(before_work)?;
            return Ok((open, claimed));
        }
        self.lanes.begin(&claims).await.map_err(before_work)
    }

    /// Law 26. Far from the floor nothing is asked: a swept claim is older than the window, and messages later than now + skew are refused.
    async fn refuse_stale(
        &self,
        batch: &[Passenger<'_>],
        fresh: &[usize],
        now: Timestamp,
        open: &mut Open<S>,
    ) -> Result<(), Stopped> {
        if self.on_stale == OnStale::Process {
            return Ok(());
        }
        let near = now.minus(self.window / 2);
        let timed = |&at: &usize| batch[at].message.time.filter(|_| batch[at].waiting.is_none());
        if !fresh.iter().any(|at| timed(at).is_some_and(|time| time <= near)) {
            return Ok(());
        }
        let floor = in_time(SILENCE_MAX, open.lane().floor(self.consumer)).await.map_err(before_work)?;
        let Some(limit) = floor.map(|floor| floor.plus(self.skew())) else { return Ok(()) };
        let stale: Vec<usize> =
            fresh.iter().copied().filter(|at| timed(at).is_some_and(|time| time <= limit)).collect();
        if stale.is_empty() { Ok(()) } else { Err(Stopped::Stale(stale)) }
    }

    async fn behind_a_held_key(
        &self,
        batch: &[Passenger<'_>],
        fresh: &[usize],
        claimed: &Claimed,
        open: &mut Open<S>,
    ) -> Result<Vec<usize>, Stopped> {
        if !(self.holds && claimed.keys_held) {
            return Ok(Vec::new());
        }
        let key = |at: usize| batch[at].message.key.as_deref().filter(|_| batch[at].waiting.is_none());
        let keys: Vec<&str> = fresh.iter().filter_map(|&at| key(at)).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let held = in_time(SILENCE_MAX, open.lane().held_keys(self.consumer, &keys)).await.map_err(before_work)?;
        Ok(fresh.iter().copied().filter(|&at| key(at).is_some_and(|key| held.iter().any(|held| held == key))).collect())
    }

    /// `hoped`: what each passenger becomes by this commit.
    async fn commit(&self, open: Open<S>, writes: &Writes, hoped: &[Outcome]) -> Result<Vec<bool>, Stopped> {
        probe::point("before-commit");
        let written = open.commit(writes).await.map_err(|error| match error.trouble {
            Trouble::Unreachable => Stopped::Unknown(error, hoped.to_vec()),
            Trouble::Rerun => Stopped::Rerun(error.message),
            // Semel's own tables: nobody's message is to blame.
            Trouble::Schema => Stopped::Unreachable(error),
            // A deferred constraint, a hidden database error: the message's own failure.
            Trouble::Busy | Trouble::Other => Stopped::Failed(Failure::Error(error.into())),
        })?;
        probe::point("after-commit");
        Ok(written.dead_seen_before)
    }

    /// Ends a transaction whose work failed. Whether the store is down is told by semel's own connection, not by the error (law 14).
    async fn stop(&self, open: Open<S>, failure: Failure) -> Stopped {
        let Failure::Error(error) = failure else {
            // A query may still run: the connection is closed, not asked (law 13). A store that fell silent looks like a slow handler.
            drop(open);
            return match (&failure, self.lanes.answers(ANSWER_MAX).await) {
                (Failure::TimedOut(_), Err(error)) if error.trouble == Trouble::Unreachable => Stopped::Broken(error),
                _ => Stopped::Failed(failure),
            };
        };
        let trouble = S::trouble(&*error.source);
        match open.rollback().await {
            Err(broken) if broken.trouble == Trouble::Unreachable => Stopped::Broken(broken),
            _ if trouble == Trouble::Rerun => Stopped::Rerun(error.text()),
            _ => Stopped::Failed(Failure::Error(error)),
        }
    }

    /// Puts a failed message into the inbox, or back into it.
    pub(crate) async fn defer(
        &self,
        passenger: Passenger<'_>,
        tries: u32,
        delay: Duration,
        error: String,
    ) -> Result<AckPermit, Stopped> {
        let message = passenger.message;
        let mut writes =
            Writes { closed: passenger.careful.then(|| message.id.clone()).into_iter().collect(), ..Writes::default() };
        match passenger.waiting {
            Some(_) => writes.retried.push(Retried { id: message.id.clone(), attempts: tries, delay, error }),
            None => writes.waiting.push(self.waiting(message, tries, delay, error)),
        }
        if probe::planted("defer-without-claim") {
            let (open, _) = self.begin(&[], ClaimWait::Claim(TWIN_WAIT)).await?;
            self.commit(open, &writes, &[]).await?;
            return Ok(AckPermit::new(message.token, Outcome::Deferred));
        }
        probe::point("before-defer");
        let permit = self.claim_for(passenger, writes, Outcome::Deferred).await?;
        probe::point("after-defer");
        Ok(permit)
    }

    /// Makes a message a dead letter.
    pub(crate) async fn bury(
        &self,
        passenger: Passenger<'_>,
        reason: Reason,
        tries: u32,
        error: String,
    ) -> Result<AckPermit, Stopped> {
        let message = passenger.message;
        let letter = DeadLetter {
            reason,
            id: Some(message.id.clone()),
            kind: message.kind.clone(),
            key: message.key.clone(),
            time: message.time,
            fingerprint: message.fingerprint,
            error,
            attempts: tries,
            envelope: message.envelope.clone(),
        };
        let id = || message.id.clone();
        let mut writes = Writes { dead: vec![letter], ..Writes::default() };
        writes.closed.extend(passenger.careful.then(id));
        writes.finished.extend(passenger.waiting.map(|_| id()));
        probe::point("before-bury");
        let permit = match reason.claims() || passenger.waiting.is_some() {
            true => self.claim_for(passenger, writes, Outcome::DeadLettered(reason)).await?,
            false => {
                let (open, _) = self.begin(&[], ClaimWait::Claim(TWIN_WAIT)).await?;
                let before = self.commit(open, &writes, &[]).await?;
                AckPermit::new(message.token, seen(&before, 0, reason))
            }
        };
        probe::point("after-bury");
        Ok(permit)
    }

    /// Deferral and dead-lettering are claims too: where another copy was first, nothing is written (law 28).
    async fn claim_for(
        &self,
        passenger: Passenger<'_>,
        writes: Writes,
        outcome: Outcome,
    ) -> Result<AckPermit, Stopped> {
        let token = passenger.message.token;
        let (open, claimed) = self.begin(&[key_of(&passenger)], ClaimWait::Claim(TWIN_WAIT)).await?;
        match claimed.claims[0] {
            Claim::Fresh => {
                self.commit(open, &writes, &[]).await?;
                Ok(AckPermit::new(token, outcome))
            }
            Claim::Duplicate => {
                open.rollback().await.map_err(Stopped::Unreachable)?;
                Ok(AckPermit::new(token, Outcome::Duplicate))
            }
            Claim::Conflict if self.on_conflict == OnConflict::DeadLetter => {
                let writes =
                    Writes { dead: vec![conflict(passenger.message)], closed: writes.closed, ..Writes::default() };
                let before = self.commit(open, &writes, &[]).await?;
                Ok(AckPermit::new(token, seen(&before, 0, Reason::Conflict)))
            }
            Claim::Conflict => {
                open.rollback().await.map_err(Stopped::Unreachable)?;
                Ok(AckPermit::new(token, Outcome::Conflict))
            }
        }
    }

    /// Attempts that are over, though their messages may not be.
    pub(crate) async fn close_attempts(&self, ids: Vec<String>) -> Result<(), Stopped> {
        let writes = Writes { closed: ids, ..Writes::default() };
        let (open, _) = self.begin(&[], ClaimWait::Claim(TWIN_WAIT)).await?;
        self.commit(open, &writes, &[]).await.map(drop)
    }

    /// Records messages that nobody can claim, all in one commit.
    pub(crate) async fn bury_refused(&self, refused: &[(&Refused, u64)]) -> Result<Vec<AckPermit>, Stopped> {
        let dead = refused.iter().map(|(refused, _)| letter_of(refused)).collect();
        let writes = Writes { dead, ..Writes::default() };
        probe::point("before-bury");
        let (open, _) = self.begin(&[], ClaimWait::Claim(TWIN_WAIT)).await?;
        let before = self.commit(open, &writes, &[]).await?;
        probe::point("after-bury");
        let permit = |(at, (refused, token)): (usize, &(&Refused, u64))| {
            AckPermit::new(*token, seen(&before, at, refused.reason))
        };
        Ok(refused.iter().enumerate().map(permit).collect())
    }

    /// Whether a message comes from a time that has not come yet.
    pub(crate) fn is_ahead_of_time(&self, message: &Incoming, now: Timestamp) -> bool {
        self.on_stale == OnStale::DeadLetter && message.time.is_some_and(|time| time > now.plus(self.skew()))
    }

    fn skew(&self) -> Duration {
        SKEW_MAX.min(self.window / 4)
    }

    fn waiting(&self, message: &Incoming, attempts: u32, delay: Duration, error: String) -> Waiting {
        Waiting {
            id: message.id.clone(),
            kind: message.kind.clone(),
            key: message.key.clone(),
            time: message.time,
            fingerprint: message.fingerprint,
            attempts,
            holds: self.holds && message.key.is_some(),
            delay,
            error,
            instance: self.instance.clone(),
            envelope: message.envelope.clone(),
        }
    }
}

/// How long the store may take to answer when a handler ran over its time, before it counts as out.
const ANSWER_MAX: Duration = Duration::from_millis(700);

fn key_of<'a>(passenger: &Passenger<'a>) -> ClaimKey<'a> {
    let Incoming { id, fingerprint, time, .. } = passenger.message;
    ClaimKey { id, fingerprint: *fingerprint, time: *time, waiting: passenger.waiting }
}

fn seen(before: &[bool], at: usize, reason: Reason) -> Outcome {
    match (before.get(at), reason) {
        (Some(true), _) => Outcome::Duplicate,
        (_, Reason::Conflict) => Outcome::Conflict,
        (_, reason) => Outcome::DeadLettered(reason),
    }
}

fn letter_of(refused: &Refused) -> DeadLetter {
    DeadLetter {
        reason: refused.reason,
        id: None,
        kind: refused.envelope.kind.clone().unwrap_or_default(),
        key: refused.envelope.key.clone(),
        time: refused.envelope.time,
        fingerprint: refused.fingerprint,
        error: refused.error.clone(),
        attempts: 0,
        envelope: refused.envelope.clone(),
    }
}

fn conflict(message: &Incoming) -> DeadLetter {
    DeadLetter {
        reason: Reason::Conflict,
        id: Some(message.id.clone()),
        kind: message.kind.clone(),
        key: message.key.clone(),
        time: message.time,
        fingerprint: message.fingerprint,
        error: "this id was claimed before by a message with other content".to_owned(),
        attempts: 0,
        envelope: message.envelope.clone(),
    }
}

fn before_work(error: StoreError) -> Stopped {
    match error.trouble {
        Trouble::Rerun => Stopped::Rerun(error.message),
        Trouble::Busy => Stopped::Busy,
        Trouble::Unreachable | Trouble::Schema | Trouble::Other => Stopped::Unreachable(error),
    }
}

/// Runs the work under its time limit, and catches its panics.
pub(crate) async fn guarded<T>(limit: Duration, work: impl Future<Output = HandlerResult<T>>) -> Result<T, Failure> {
    let mut work = pin!(work);
    let caught = std::future::poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(done)) => Poll::Ready(done.map_err(Failure::Error)),
        Err(panic) => Poll::Ready(Err(Failure::Panicked(panic_text(&*panic)))),
    });
    tokio::time::timeout(limit, caught).await.unwrap_or(Err(Failure::TimedOut(limit)))
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(|text| &**text));
    crate::dead_letter::error_text(text.unwrap_or("(no text)"))
}
