//! A lane: takes what waits as a batch, passes it through the hallway, splits what fails, and answers the broker.

use crate::broker::{Answer, Settle, Settled};
use crate::claim::{Claim, ClaimKey, ClaimWait};
use crate::consumer::batch::BatchSize;
use crate::consumer::careful::{self, Careful};
use crate::consumer::shared::Shared;
use crate::consumer::work::{Item, Origin, RefusedWork, Work};
use crate::dead_letter::Reason;
use crate::error::Wish;
use crate::lanes::ask;
use crate::permit::{AckPermit, Outcome};
use crate::policy::{FUTURE, OnConflict, OnUnknownKind, RERUNS_MAX, STALE, TWIN_WAIT};
use crate::probe;
use crate::process::{Failure, Passenger, Stopped};
use crate::records::Records;
use crate::retry::{NextTry, backoff};
use crate::store::{Store, StoreError, Trouble};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

/// A batch waits for nobody's locks longer than this (§7).
const BATCH_WAIT: Duration = Duration::from_millis(100);
/// Refused messages of one commit: few, so that the brake comes before many are dead letters.
const REFUSED_MAX: usize = 25;
/// Most bytes of bodies in one batch.
const BATCH_BYTES_MAX: usize = 1024 * 1024;

type Works<K> = Vec<Box<Work<K>>>;

pub(crate) struct Lane<S: Store, K: Settle> {
    shared: Arc<Shared<S>>,
    queue: UnboundedReceiver<Item<K>>,
    pending: VecDeque<Item<K>>,
    aside: Vec<Aside<K>>,
    size: BatchSize,
    /// Most of the last batch was known: look before claiming.
    look_first: bool,
    closed: bool,
}

/// A message whose twin is in work elsewhere, and those of its key behind it (law 8).
struct Aside<K> {
    until: Instant,
    works: VecDeque<Box<Work<K>>>,
}

impl<K> Aside<K> {
    /// Whether `work` must wait behind what was set aside: it is of the same key, or a twin.
    fn stands_before(&self, work: &Work<K>) -> bool {
        self.works.iter().any(|aside| {
            let same_key = aside.message.key.is_some() && aside.message.key == work.message.key;
            same_key || aside.message.id == work.message.id
        })
    }
}

/// What is to be written down of a message that did not go through.
enum Note {
    Deferred { delay: Duration, error: String },
    Dead { reason: Reason, error: String },
}

enum Batch<K> {
    Known(Works<K>),
    Refused(Vec<Box<RefusedWork<K>>>),
}

/// What is left of a batch after one try.
enum Left<K> {
    Nothing,
    Again(Works<K>),
    Halves(Works<K>, Works<K>),
}

impl<S: Store, K: Settle> Lane<S, K> {
    pub(crate) fn new(shared: Arc<Shared<S>>, queue: UnboundedReceiver<Item<K>>) -> Self {
        let size = BatchSize::new(shared.settings.max_batch);
        Lane { shared, queue, pending: VecDeque::new(), aside: Vec::new(), size, look_first: false, closed: false }
    }

    /// Works until the queue is closed and empty, or the run is stopped; then gives the rest back.
    pub(crate) async fn run(mut self) {
        while let Some(batch) = self.gather().await {
            match batch {
                Batch::Refused(refused) => self.bury_refused(refused).await,
                Batch::Known(works) => self.work_off(works).await,
            }
        }
        self.queue.close();
        while let Ok(item) = self.queue.try_recv() {
            self.pending.push_back(item);
        }
        let aside = std::mem::take(&mut self.aside).into_iter().flat_map(|aside| aside.works).map(Item::Known);
        let pending = std::mem::take(&mut self.pending);
        for item in aside.chain(pending) {
            self.give_back(item).await;
        }
    }

    // ---- taking

    async fn gather(&mut self) -> Option<Batch<K>> {
        loop {
            if self.shared.stop.is_stopped() {
                return None;
            }
            self.take_back_from_aside();
            if self.pending.is_empty() {
                let next_aside = self.aside.iter().map(|aside| aside.until).min();
                if self.closed && next_aside.is_none() {
                    return None;
                }
                tokio::select! {
                    biased;
                    () = self.shared.stop.stopped() => return None,
                    item = self.queue.recv(), if !self.closed => match item {
                        Some(item) => self.pending.push_back(item),
                        None => self.closed = true,
                    },
                    () = tokio::time::sleep_until(next_aside.unwrap_or_else(Instant::now)), if next_aside.is_some() => {}
                }
                continue;
            }
            while self.pending.len() < self.shared.settings.max_batch
                && let Ok(item) = self.queue.try_recv()
            {
                self.pending.push_back(item);
            }
            if let Some(batch) = self.form() {
                return Some(batch);
            }
        }
    }

    fn take_back_from_aside(&mut self) {
        let now = Instant::now();
        for at in (0..self.aside.len()).rev() {
            if self.aside[at].until <= now {
                let works = self.aside.swap_remove(at).works;
                works.into_iter().rev().for_each(|work| self.pending.push_front(Item::Known(work)));
            }
        }
    }

    /// The front of what is pending, as far as it can share a transaction. `None`: all of it stands behind what was set aside.
    fn form(&mut self) -> Option<Batch<K>> {
        let mut refused = Vec::new();
        let mut works: Works<K> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let mut bytes = 0;
        while let Some(item) = self.pending.pop_front() {
            let work = match item {
                Item::Refused(one) if works.is_empty() && refused.len() < REFUSED_MAX => {
                    refused.push(one);
                    continue;
                }
                Item::Known(work) if refused.is_empty() => work,
                item => {
                    self.pending.push_front(item);
                    break;
                }
            };
            if let Some(aside) = self.aside.iter_mut().find(|aside| aside.stands_before(&work)) {
                aside.works.push_back(work);
                continue;
            }
            if let Some(&first) = places.get(&work.message.id) {
                match works[first].adopt(work) {
                    Ok(()) => continue,
                    Err(other_content) => {
                        self.pending.push_front(Item::Known(other_content));
                        break;
                    }
                }
            }
            let same_care = works.first().is_none_or(|first| first.careful == work.careful);
            let fits = works.is_empty() || bytes + work.message.weight() <= BATCH_BYTES_MAX;
            let most = if work.careful || self.look_first { self.shared.settings.max_batch } else { self.size.now() };
            if works.len() >= most || !same_care || !fits {
                self.pending.push_front(Item::Known(work));
                break;
            }
            bytes += work.message.weight();
            places.insert(work.message.id.clone(), works.len());
            works.push(work);
        }
        match (works.is_empty(), refused.is_empty()) {
            (false, _) => Some(Batch::Known(works)),
            (true, false) => Some(Batch::Refused(refused)),
            (true, true) => None,
        }
    }

    // ---- working

    async fn work_off(&mut self, works: Works<K>) {
        let works = self.turn_away(works).await;
        let works = match works.first() {
            Some(first) if first.careful || self.look_first => self.settle_known(works).await,
            _ => works,
        };
        let mut todo: Vec<Works<K>> = match works.first() {
            None => return,
            Some(first) if first.careful => works.into_iter().rev().map(|work| vec![work]).collect(),
            Some(_) => vec![works],
        };
        while let Some(part) = todo.pop() {
            if self.shared.stop.is_stopped() {
                for work in part.into_iter().chain(todo.drain(..).rev().flatten()) {
                    self.give_back(Item::Known(work)).await;
                }
                return;
            }
            match self.attempt(part).await {
                Left::Nothing => {}
                Left::Again(part) => todo.push(part),
                Left::Halves(first, second) => todo.extend([second, first]),
            }
        }
    }

    /// Messages that no handler takes, and messages from the future.
    async fn turn_away(&mut self, works: Works<K>) -> Works<K> {
        let now = self.shared.now();
        let mut kept = Vec::with_capacity(works.len());
        for work in works {
            if self.shared.handlers.get(work.message.kind()).is_none() {
                match (self.shared.settings.on_unknown_kind, &work.from) {
                    (OnUnknownKind::Ignore, Origin::Broker(_)) => {
                        let permit = AckPermit::new(work.message.token, Outcome::Ignored);
                        self.settle(work, permit).await;
                    }
                    // What waits in the inbox has a claim, and so a place to go to.
                    _ => {
                        let error = format!("no handler takes the kind {:?}", work.message.kind());
                        self.bury(work, Reason::NoHandler, error).await;
                    }
                }
            } else if self.shared.passage.is_ahead_of_time(&work.message, now) && matches!(work.from, Origin::Broker(_))
            {
                self.bury(work, Reason::Future, FUTURE.to_owned()).await;
            } else {
                kept.push(work);
            }
        }
        kept
    }

    /// Settles what was claimed before, without a transaction; what is left is new, or in conflict.
    async fn settle_known(&mut self, works: Works<K>) -> Works<K> {
        let mut works = works;
        let known = loop {
            match self.look(&works).await {
                Ok(known) => break known,
                Err(error) => {
                    if !self.shared.wait_for_store(error).await {
                        return works;
                    }
                }
            }
        };
        self.note_known(known.iter().filter(|claim| **claim == Claim::Duplicate).count(), works.len());
        let mut left = Vec::new();
        for (work, claim) in works.drain(..).zip(known) {
            match (claim, &work.from) {
                (Claim::Duplicate, Origin::Broker(_)) => {
                    let permit = AckPermit::new(work.message.token, Outcome::Duplicate);
                    self.settle(work, permit).await;
                }
                _ => left.push(work),
            }
        }
        left
    }

    async fn look(&self, works: &Works<K>) -> Result<Vec<Claim>, StoreError> {
        let mut keys: Vec<(usize, ClaimKey<'_>)> = Vec::with_capacity(works.len());
        for (at, work) in works.iter().enumerate() {
            let Passenger { message, waiting, .. } = work.passenger();
            keys.push((
                at,
                ClaimKey { id: &message.id, fingerprint: message.fingerprint, time: message.time, waiting },
            ));
        }
        keys.sort_unstable_by(|(_, a), (_, b)| a.id.as_bytes().cmp(b.id.as_bytes()));
        let sorted: Vec<ClaimKey<'_>> = keys.iter().map(|(_, key)| *key).collect();
        let looked = ask!(self.shared.passage.lanes, lane => lane.look(self.shared.passage.consumer, &sorted));
        self.shared.store_works();
        let mut claims = vec![Claim::Fresh; works.len()];
        keys.iter().zip(looked.claims).for_each(|((at, _), claim)| claims[*at] = claim);
        Ok(claims)
    }

    fn note_known(&mut self, known: usize, all: usize) {
        self.look_first = known * 2 > all;
    }

    /// One try of a batch.
    async fn attempt(&mut self, mut works: Works<K>) -> Left<K> {
        let wait = if works.len() == 1 { ClaimWait::Claim(TWIN_WAIT) } else { ClaimWait::Transaction(BATCH_WAIT) };
        if probe::planted("ack-before-commit") {
            for work in &mut works {
                if let Origin::Broker(answer) = std::mem::replace(&mut work.from, Origin::Answered) {
                    answer.ack(AckPermit::new(work.message.token, Outcome::Processed)).await;
                    probe::point("after-ack");
                }
            }
        }
        let result = match works[0].careful {
            true => {
                let shared = self.shared.clone();
                let _alone = shared.alone.write().await;
                let (lanes, consumer) = (&shared.passage.lanes, shared.passage.consumer);
                match careful::open(lanes, consumer, &shared.me, &works[0].message.id, shared.settings.max_crashes)
                    .await
                {
                    Ok(Careful::Open) => {
                        shared.attempts().insert(works[0].message.id.clone());
                        shared.passage.pass(&[works[0].passenger()], &shared.handlers, wait).await
                    }
                    Ok(Careful::Crashed(crashes)) => {
                        let work = works.swap_remove(0);
                        let error = format!("it killed the process {crashes} times");
                        self.bury(work, Reason::Crashed, error).await;
                        return Left::Nothing;
                    }
                    Err(error) => Err(Stopped::Unreachable(error)),
                }
            }
            false => {
                let _together = self.shared.alone.read().await;
                let passengers: Vec<Passenger<'_>> = works.iter().map(|work| work.passenger()).collect();
                self.shared.passage.pass(&passengers, &self.shared.handlers, wait).await
            }
        };
        match result {
            Ok(passed) => {
                self.shared.store_works();
                self.size.went_through(works.len(), passed.took);
                let known = passed.permits.iter().filter(|permit| permit.outcome() == Outcome::Duplicate).count();
                self.note_known(known, passed.permits.len());
                for (work, permit) in works.into_iter().zip(passed.permits) {
                    self.settle(work, permit).await;
                }
                Left::Nothing
            }
            Err(stopped) => self.after(works, stopped).await,
        }
    }

    /// What follows a try that did not go through. Reads top to bottom as the policy.
    async fn after(&mut self, mut works: Works<K>, stopped: Stopped) -> Left<K> {
        let alone = works.len() == 1;
        match stopped {
            Stopped::Unreachable(error) => self.when_store_is_back(works, error).await,
            Stopped::Unknown(error, outcomes) => {
                for (work, outcome) in works.iter_mut().zip(outcomes) {
                    work.hoped.get_or_insert(outcome);
                }
                self.when_store_is_back(works, error).await
            }
            Stopped::Stale(at) => self.bury_stale(works, &at).await,
            Stopped::Busy if alone => {
                self.close_attempt(&works[0]).await;
                self.set_aside(*works.swap_remove(0));
                Left::Nothing
            }
            Stopped::Rerun(_) if !alone => {
                self.size.collided();
                halves(works)
            }
            Stopped::Failed(Failure::Error(error)) if !alone => {
                if S::trouble(&*error.source) == Trouble::Busy {
                    self.size.collided();
                }
                halves(works)
            }
            Stopped::Busy | Stopped::Failed(_) if !alone => halves(works),
            Stopped::Broken(error) if !alone => match self.when_store_is_back(works, error).await {
                Left::Again(works) => halves(works),
                left => left,
            },
            Stopped::Broken(error) if works[0].reruns < RERUNS_MAX => {
                works[0].reruns += 1;
                self.when_store_is_back(works, error).await
            }
            Stopped::Rerun(_) if works[0].reruns < RERUNS_MAX => {
                works[0].reruns += 1;
                let pause = backoff(works[0].reruns, Duration::from_millis(5), Duration::from_secs(1));
                self.pause(pause).await;
                Left::Again(works)
            }
            Stopped::Broken(error) => {
                let text =
                    format!("the connection to the store broke {} times while it was handled: {error}", RERUNS_MAX + 1);
                self.failed(works.swap_remove(0), Wish::Retry(None), text).await
            }
            Stopped::Rerun(text) => {
                let text = format!("run {} times, each time ended by the database: {text}", RERUNS_MAX + 1);
                self.failed(works.swap_remove(0), Wish::Retry(None), text).await
            }
            Stopped::Failed(failure) => self.failed(works.swap_remove(0), failure.wish(), failure.text()).await,
            Stopped::Busy => halves(works),
        }
    }

    async fn when_store_is_back(&mut self, works: Works<K>, error: StoreError) -> Left<K> {
        // Stopped meanwhile: `work_off` sees it and gives the batch back.
        let _ = self.shared.wait_for_store(error).await;
        Left::Again(works)
    }

    async fn bury_stale(&mut self, works: Works<K>, stale: &[usize]) -> Left<K> {
        let mut rest = Vec::new();
        for (at, work) in works.into_iter().enumerate() {
            match stale.contains(&at) {
                true => self.bury(work, Reason::Stale, STALE.to_owned()).await,
                false => rest.push(work),
            }
        }
        if rest.is_empty() { Left::Nothing } else { Left::Again(rest) }
    }

    /// A try of a single message failed: the retry plan says what follows.
    async fn failed(&mut self, mut work: Box<Work<K>>, wish: Wish, error: String) -> Left<K> {
        self.shared.say_that_one_failed(&work.message.id);
        work.tries += 1;
        work.reruns = 0;
        work.message.attempt = work.tries + 1;
        let asked = match wish {
            Wish::Bury(reason) => {
                self.bury(work, reason, error).await;
                return Left::Nothing;
            }
            Wish::Retry(asked) => asked,
        };
        match self.shared.settings.retry.after(work.tries, asked) {
            NextTry::InPlace(delay) => {
                self.close_attempt(&work).await;
                self.pause(delay).await;
                return Left::Again(vec![work]);
            }
            NextTry::Deferred(delay) => self.defer(work, delay, error).await,
            NextTry::Never => self.bury(work, Reason::Failed, error).await,
        }
        Left::Nothing
    }

    async fn pause(&self, delay: Duration) {
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = self.shared.stop.stopped() => {}
        }
    }

    fn set_aside(&mut self, work: Work<K>) {
        let round = work.waits + 1;
        let delay = backoff(round, Duration::from_millis(100), Duration::from_secs(5));
        self.aside.push(Aside {
            until: Instant::now() + delay,
            works: VecDeque::from([Box::new(Work { waits: round, ..work })]),
        });
    }

    // ---- writing down

    async fn defer(&mut self, work: Box<Work<K>>, delay: Duration, error: String) {
        self.write_down(work, Note::Deferred { delay, error }).await;
    }

    async fn bury(&mut self, work: Box<Work<K>>, reason: Reason, error: String) {
        self.write_down(work, Note::Dead { reason, error }).await;
    }

    /// Until it is written, or the run is stopped: then the message goes back and comes again.
    async fn write_down(&mut self, mut work: Box<Work<K>>, note: Note) {
        let (mut rounds, mut unknown) = (0, work.hoped.is_some());
        loop {
            let written = match &note {
                Note::Deferred { delay, error } => {
                    self.shared.passage.defer(work.passenger(), work.tries, *delay, error.clone()).await
                }
                Note::Dead { reason, error } => {
                    self.shared.passage.bury(work.passenger(), *reason, work.tries, error.clone()).await
                }
            };
            match written {
                Ok(permit) => {
                    self.shared.store_works();
                    work.hoped = unknown.then(|| note.outcome());
                    return self.settle(work, permit).await;
                }
                Err(stopped) => {
                    unknown |= matches!(stopped, Stopped::Unknown(..));
                    rounds += 1;
                    if !self.wait_to_write(stopped, rounds).await {
                        return self.give_back(Item::Known(work)).await;
                    }
                }
            }
        }
    }

    /// Waits until writing down may work. `false`: the run is stopped.
    async fn wait_to_write(&self, stopped: Stopped, round: u32) -> bool {
        let error = match stopped {
            Stopped::Unreachable(error) | Stopped::Broken(error) | Stopped::Unknown(error, _) => error,
            Stopped::Busy | Stopped::Rerun(_) | Stopped::Stale(_) => {
                self.pause(backoff(round, Duration::from_millis(20), Duration::from_secs(5))).await;
                return !self.shared.stop.is_stopped();
            }
            // Semel's own statements failed: not this message's fault.
            Stopped::Failed(failure) => StoreError::new(Trouble::Other, failure.text()),
        };
        self.shared.wait_for_store(error).await
    }

    /// Messages without an id: one commit for all of them.
    async fn bury_refused(&mut self, works: Vec<Box<RefusedWork<K>>>) {
        let mut rounds = 0;
        let permits = loop {
            let refused: Vec<_> = works.iter().map(|work| (&*work.refused, work.answer.token())).collect();
            match self.shared.passage.bury_refused(&refused).await {
                Ok(permits) => break permits,
                Err(stopped) => {
                    rounds += 1;
                    if !self.wait_to_write(stopped, rounds).await {
                        for work in works {
                            self.give_back(Item::Refused(work)).await;
                        }
                        return;
                    }
                }
            }
        };
        self.shared.store_works();
        for (work, permit) in works.into_iter().zip(permits) {
            self.shared.count(permit.outcome());
            self.answer(work.answer, permit).await;
        }
    }

    /// An attempt that is not running any more must not look like one that was cut off by a crash. If it cannot be written, the end of the run
    /// tries again.
    async fn close_attempt(&self, work: &Work<K>) {
        let id = &work.message.id;
        if work.careful && self.shared.attempts().contains(id) {
            let closed = self.shared.passage.close_attempts(vec![id.clone()]).await;
            if closed.is_ok() {
                self.shared.attempts().remove(id);
            }
        }
    }

    // ---- answering

    /// Counts a message and acknowledges it.
    async fn settle(&mut self, work: Box<Work<K>>, permit: AckPermit) {
        match permit.outcome() {
            // Written by the commit itself.
            Outcome::Processed | Outcome::Deferred | Outcome::DeadLettered(_) => {
                self.shared.attempts().remove(&work.message.id);
            }
            Outcome::Duplicate | Outcome::Conflict | Outcome::Ignored => self.close_attempt(&work).await,
        }
        let Work { message, from, careful, hoped, twins, slot, .. } = *work;
        let permit = permit.after_unknown(hoped);
        let outcome = permit.outcome();
        if careful && outcome != Outcome::Duplicate {
            self.shared.handled_with_care();
        }
        match from {
            Origin::Inbox { counted, .. } => {
                // A duplicate here means that another process took it up: it counts there.
                if outcome != Outcome::Duplicate {
                    if counted {
                        self.shared.progress.uncount_deferred();
                    }
                    self.shared.count(outcome);
                }
                self.shared.taken().remove(&message.id);
                self.shared.look_at_inbox.notify_one();
            }
            Origin::Answered => self.shared.count(outcome),
            Origin::Broker(answer) => {
                self.shared.count(outcome);
                if outcome == Outcome::Deferred {
                    self.shared.look_at_inbox.notify_one();
                }
                self.answer(answer, permit).await;
            }
        }
        drop(slot);
        // Known by now, unless the policy wrote nothing down.
        let repeated = match outcome {
            Outcome::Conflict if self.shared.settings.on_conflict == OnConflict::Ignore => Outcome::Conflict,
            Outcome::Ignored => Outcome::Ignored,
            _ => Outcome::Duplicate,
        };
        for (answer, slot) in twins {
            self.shared.count(repeated);
            let permit = AckPermit::new(answer.token(), repeated);
            self.answer(answer, permit).await;
            drop(slot);
        }
    }

    async fn answer(&self, answer: Answer<K>, permit: AckPermit) {
        probe::point("before-ack");
        if answer.ack(permit).await == Settled::Lost {
            self.shared.progress.lost_ack();
        }
        probe::point("after-ack");
    }

    async fn give_back(&self, item: Item<K>) {
        match item {
            Item::Refused(work) => drop(work.answer.back(Duration::ZERO).await),
            Item::Known(work) => {
                if let Origin::Broker(answer) = work.from {
                    answer.back(Duration::ZERO).await;
                }
                for (answer, _slot) in work.twins {
                    answer.back(Duration::ZERO).await;
                }
            }
        }
    }
}

impl Note {
    fn outcome(&self) -> Outcome {
        match self {
            Note::Deferred { .. } => Outcome::Deferred,
            Note::Dead { reason, .. } => Outcome::DeadLettered(*reason),
        }
    }
}

fn halves<K>(mut works: Works<K>) -> Left<K> {
    let second = works.split_off(works.len() / 2);
    if works.is_empty() { Left::Again(second) } else { Left::Halves(works, second) }
}
