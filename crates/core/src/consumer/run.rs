//! A run: pulls deliveries, says which message each is, hands it to its lane, and keeps the books (positions, signs of life, what is due).

use crate::broker::{BrokerError, Delivery, Positions, Redelivery, Source, Subscription};
use crate::claim::ConsumerNumber;
use crate::consumer::careful;
use crate::consumer::counters::Summary;
use crate::consumer::lane::Lane;
use crate::consumer::run_error::RunError;
use crate::consumer::shared::Shared;
use crate::consumer::work::{Item, Origin, RefusedWork, Work};
use crate::consumer::{Consumer, Stop};
use crate::identity::Incoming;
use crate::instance::{BEAT_EVERY, Instance};
use crate::lanes::ask;
use crate::probe;
use crate::process::Passage;
use crate::records::Records;
use crate::retention;
use crate::retry::backoff;
use crate::store::{Lane as _, Store, StoreError, Trouble};
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// Most bytes of bodies in hand, whatever the prefetch is.
const BYTES_IN_HAND_MAX: usize = 16 * 1024 * 1024;
/// How often the position is stored.
const SAVE_EVERY: Duration = Duration::from_millis(250);
/// The inbox is looked at this often, whatever it said last time: another process may have put something there.
const INBOX_EVERY: Duration = Duration::from_secs(1);
/// How long a run of a source that ends tries to reach its store.
const GIVE_UP: Duration = Duration::from_secs(60);
/// How long each of the last words to the store may take.
const LAST_WORDS_MAX: Duration = Duration::from_secs(3);

type SubscriptionOf<B> = <B as Source>::Subscription;
type SettleOf<B> = <SubscriptionOf<B> as Subscription>::Settle;

/// One of the last words to the store, which may fail: said again where that helps, but not for long, and no failure of the run. Whether the
/// store answers at all.
macro_rules! last_word {
    ($name:expr, $say:expr, $lost:literal) => {{
        let mut round = 0;
        loop {
            round += 1;
            let (failed, silent) = match tokio::time::timeout(LAST_WORDS_MAX, $say).await {
                Ok(Ok(())) => break true,
                Ok(Err(error)) => (error.to_string(), false),
                Err(_) => ("the store gave no answer".to_owned(), true),
            };
            // Whoever gives no answer is not asked again.
            if silent || round == 3 {
                tracing::warn!(consumer = %$name, "{}: {failed}", $lost);
                break !silent;
            }
            tokio::time::sleep(backoff(round, Duration::from_millis(50), Duration::from_secs(1))).await;
        }
    }};
}

pub(crate) async fn run<S: Store, B: Source>(consumer: Consumer<S>, source: B) -> Result<Summary, RunError> {
    let started = std::time::Instant::now();
    let Consumer { name, semel, handlers, mut settings, stop, progress } = consumer;
    if handlers.is_empty() {
        return Err(RunError::NoHandler(name));
    }
    let features = source.features();
    if features.ends || settings.until_idle.is_some() {
        settings.give_up.get_or_insert(GIVE_UP);
    }
    let number = semel.register(&name, Some(settings.window)).await?;
    let me = Instance::current();
    let unclean = careful::join(&semel.lanes, number, &me).await?;
    let passage = Passage {
        lanes: semel.lanes.clone(),
        consumer: number,
        window: settings.window,
        time_limit: settings.timeout,
        holds: settings.hold,
        on_conflict: settings.on_conflict,
        on_stale: settings.on_stale,
        instance: me.id.clone(),
    };
    let now = semel.now().await?;
    let shared = Shared::new(name.clone(), passage, handlers, settings, progress.clone(), me, now);
    let shared = Arc::new(shared);
    if unclean {
        tracing::info!(consumer = %name, "an earlier run did not end well: handling the first messages with care");
    }
    if unclean || features.redelivery == Redelivery::Unknown {
        shared.be_careful();
    }

    let mut lanes = JoinSet::new();
    let senders = (0..shared.settings.lanes).map(|_| {
        let (sender, queue) = unbounded_channel();
        lanes.spawn(Lane::<S, SettleOf<B>>::new(shared.clone(), queue).run());
        sender
    });
    let senders: Vec<_> = senders.collect();
    // Tasks of this run: they end with it, also where it is dropped.
    let mut aside = JoinSet::new();
    if shared.settings.sweep {
        let (lanes, window) = (semel.lanes.clone(), shared.settings.window);
        aside.spawn(async move { retention::keep(&lanes, number, window).await });
    }
    aside.spawn({
        let shared = shared.clone();
        async move {
            stop.stopped().await;
            shared.stop.stop();
        }
    });
    let mut pull = Pull {
        positions: Positions::new(),
        source_name: source.name(),
        shared: shared.clone(),
        senders,
        number,
        careful_inbox: unclean,
        inbox_at: Instant::now(),
        last_came: Instant::now(),
    };
    let pulled = pull.pull(&source).await;
    let drained = pull.drain(&mut lanes, pulled.is_ok()).await;
    aside.abort_all();
    drained?;
    // Nothing is in work any more, so the end is clean, if the store can be told.
    let mut answers = true;
    let ended = match (shared.failure(), pulled) {
        (Some(error), _) | (None, Err(error)) => Err(error),
        (None, Ok(mut subscription)) => {
            if let Some(subscription) = &mut subscription {
                answers = last_word!(
                    name,
                    pull.save(subscription),
                    "the position could not be stored, so some messages will be read again, and known"
                );
            }
            Ok(progress.summary(&name, started.elapsed()))
        }
    };
    if answers {
        last_word!(
            name,
            leave(&shared),
            "the end of this run could not be stored, so the next one handles its first messages with care"
        );
    }
    ended
}

/// A clean end: no attempt is open, and this process is not looked for.
async fn leave<S: Store>(shared: &Shared<S>) -> Result<(), StoreError> {
    let attempts: Vec<String> = shared.attempts().iter().cloned().collect();
    if !attempts.is_empty() {
        let closed = shared.passage.close_attempts(attempts).await;
        closed.map_err(|stopped| StoreError::new(Trouble::Other, format!("{stopped:?}")))?;
        shared.attempts().clear();
    }
    ask!(shared.passage.lanes, lane => lane.remove_instance(shared.passage.consumer, &shared.me.id));
    Ok(())
}

/// The books lose against a stop: dropped anywhere, they close their connection, and that is safe.
async fn unless_stopped(stop: &Stop, books: impl Future<Output = ()>) {
    tokio::select! {
        biased;
        () = stop.stopped() => {}
        () = books => {}
    }
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

struct Pull<S: Store, B: Source> {
    shared: Arc<Shared<S>>,
    senders: Vec<UnboundedSender<Item<SettleOf<B>>>>,
    number: ConsumerNumber,
    source_name: String,
    /// As stored.
    positions: Positions,
    /// Waiting messages are handled with care, since an earlier run did not end well.
    careful_inbox: bool,
    inbox_at: Instant,
    last_came: Instant,
}

impl<S: Store, B: Source> Pull<S, B> {
    /// Until the source has ended and nothing is in hand, or the run is stopped. The subscription, so that the last position can be stored.
    async fn pull(&mut self, source: &B) -> Result<Option<SubscriptionOf<B>>, RunError> {
        let Some(mut subscription) = self.subscribe(source).await? else { return Ok(None) };
        let shared = self.shared.clone();
        let mut save = tokio::time::interval(SAVE_EVERY);
        let mut beat = tokio::time::interval_at(Instant::now() + BEAT_EVERY, BEAT_EVERY);
        let mut ended = false;
        loop {
            let in_hand = shared.in_hand.count();
            if in_hand == 0 && (ended || self.is_idle()) && !shared.stop.is_stopped() {
                match self.feed_from_inbox(shared.settings.prefetch()).await {
                    Ok(false) => return Ok(Some(subscription)),
                    Ok(true) => {}
                    Err(error) => self.tried(Err(error)).await,
                }
                continue;
            }
            let room = shared.settings.prefetch().saturating_sub(in_hand);
            // One look at what is in hand serves both: `next(0)` would answer nothing, and that means the end.
            let open = shared.in_hand.has_room(in_hand)
                && shared.in_hand.bytes() < BYTES_IN_HAND_MAX
                && !shared.store_is_out();
            tokio::select! {
                biased;
                () = shared.stop.stopped() => return Ok(Some(subscription)),
                _ = beat.tick() => unless_stopped(&shared.stop, async {
                    let beaten = self.beat().await;
                    self.tried(beaten).await;
                }).await,
                _ = save.tick(), if !shared.is_suspicious() => unless_stopped(&shared.stop, async {
                    let saved = self.save(&mut subscription).await;
                    self.tried(saved).await;
                }).await,
                () = shared.look_at_inbox.notified() => self.inbox_at = Instant::now(),
                () = tokio::time::sleep_until(self.inbox_at), if room > 0 => unless_stopped(&shared.stop, async {
                    let fed = self.feed_from_inbox(room).await;
                    self.tried(fed.map(drop)).await;
                }).await,
                () = shared.in_hand.changed.notified(), if !open || ended => {}
                came = subscription.next(room), if open && !ended => match came {
                    Ok(deliveries) if deliveries.is_empty() => ended = true,
                    Ok(deliveries) => self.hand_out(deliveries),
                    Err(error) => {
                        drop(subscription);
                        self.went_away(error).await?;
                        subscription = match self.subscribe(source).await? {
                            Some(subscription) => subscription,
                            None => return Ok(None),
                        };
                        tracing::info!(consumer = %shared.name, source = %self.source_name, "the source is there again");
                    }
                },
            }
        }
    }

    async fn went_away(&self, error: BrokerError) -> Result<(), RunError> {
        match error {
            BrokerError::Unreachable(text) => {
                tracing::warn!(consumer = %self.shared.name, source = %self.source_name, "the source is gone; trying again: {text}");
                Ok(())
            }
            error => Err(error.into()),
        }
    }

    /// Connects, as often as it takes. `None`: stopped meanwhile.
    async fn subscribe(&mut self, source: &B) -> Result<Option<SubscriptionOf<B>>, RunError> {
        let since = Instant::now();
        if !self.shared.settings.from_start {
            self.positions = ask!(self.shared.passage.lanes, lane => lane.positions(self.number, &self.source_name));
        }
        for round in 1.. {
            let text = match source.subscribe(&self.positions).await {
                Ok(subscription) => {
                    if round > 1 && source.features().redelivery == Redelivery::Unknown {
                        self.shared.be_careful();
                    }
                    return Ok(Some(subscription));
                }
                Err(BrokerError::Unreachable(text)) => text,
                Err(error) => return Err(error.into()),
            };
            if self.shared.settings.give_up.is_some_and(|limit| since.elapsed() > limit) {
                return Err(BrokerError::Unreachable(text).into());
            }
            tokio::select! {
                () = tokio::time::sleep(backoff(round, Duration::from_millis(200), Duration::from_secs(5))) => {}
                () = self.shared.stop.stopped() => return Ok(None),
            }
        }
        Ok(None)
    }

    fn is_idle(&self) -> bool {
        let idle = |limit| self.last_came.elapsed() >= limit && !self.shared.store_is_out();
        self.shared.settings.until_idle.is_some_and(idle)
    }

    fn hand_out(&mut self, deliveries: Vec<Delivery<SettleOf<B>>>) {
        self.last_came = Instant::now();
        // Neighbours share a lane as long as they can share a batch: then batches are full.
        let mut free = self.shared.in_hand.idlest();
        for (at, delivery) in deliveries.into_iter().enumerate() {
            if at > 0 && at % self.shared.settings.max_batch == 0 {
                free = self.shared.in_hand.idlest();
            }
            let careful = self.shared.is_careful() || delivery.redelivered == Some(true);
            let unit = delivery.unit.clone();
            let (envelope, answer) = delivery.split();
            let bytes = envelope.body.len();
            match self.shared.settings.identity.identify(envelope) {
                Ok(message) => {
                    let message = Incoming { token: answer.token(), ..message };
                    let slot = match message.key.as_deref().or(unit.as_deref()) {
                        Some(key) => self.shared.in_hand.take_in(bytes, self.lane_of(key)),
                        None => self.shared.in_hand.take_any(bytes, hash(&message.id), free),
                    };
                    let work = Work {
                        message,
                        from: Origin::Broker(answer),
                        careful,
                        tries: 0,
                        reruns: 0,
                        waits: 0,
                        hoped: None,
                        twins: Vec::new(),
                        slot,
                    };
                    self.send(work.slot.lane, Item::Known(Box::new(work)));
                }
                Err(refused) => {
                    let slot = self.shared.in_hand.take_in(bytes, free);
                    self.send(free, Item::Refused(Box::new(RefusedWork { refused, answer, _slot: slot })));
                }
            }
        }
    }

    fn send(&self, lane: usize, item: Item<SettleOf<B>>) {
        // A lane that is gone has panicked, which `drain` reports; the item is dropped unanswered and comes again.
        let _ = self.senders[lane].send(item);
    }

    /// Messages of one key always take the same lane.
    fn lane_of(&self, key: &str) -> usize {
        (hash(key) % self.senders.len() as u64) as usize
    }

    /// Takes up waiting messages that are due; whether there were any.
    async fn feed_from_inbox(&mut self, room: usize) -> Result<bool, StoreError> {
        let shared = &self.shared;
        let due = ask!(shared.passage.lanes, lane => lane.due(self.number, room));
        let next = ask!(shared.passage.lanes, lane => lane.next_due(self.number));
        let mut fed = false;
        for waiting in due {
            if !shared.taken().insert(waiting.id.clone()) {
                continue;
            }
            fed = true;
            let (attempts, counted) = (waiting.attempts, waiting.instance == shared.me.id);
            let bytes = waiting.envelope.body.len();
            let message = Incoming::resumed(waiting);
            let slot = match &message.key {
                Some(key) => shared.in_hand.take_in(bytes, self.lane_of(key)),
                None => shared.in_hand.take_any(bytes, hash(&message.id), shared.in_hand.idlest()),
            };
            let work = Work {
                message,
                from: Origin::Inbox { attempts, counted },
                careful: self.careful_inbox,
                tries: attempts,
                reruns: 0,
                waits: 0,
                hoped: None,
                twins: Vec::new(),
                slot,
            };
            self.send(work.slot.lane, Item::Known(Box::new(work)));
        }
        // Nothing more to be had though something is due: it stands behind another, whose end will say so.
        let next = next.filter(|next| fed || !next.is_zero());
        self.inbox_at = Instant::now() + next.unwrap_or(INBOX_EVERY).clamp(Duration::from_millis(10), INBOX_EVERY);
        Ok(fed)
    }

    async fn beat(&self) -> Result<(), StoreError> {
        let now = ask!(self.shared.passage.lanes, lane => async { lane.beat(self.number, &self.shared.me).await.map(|()| lane.now()) });
        self.shared.told_time(now);
        Ok(())
    }

    /// Stores the position: an acknowledgement, written after the commits that it stands for.
    async fn save(&mut self, subscription: &mut SubscriptionOf<B>) -> Result<(), StoreError> {
        let positions = subscription.positions();
        if positions.is_empty() || positions == self.positions {
            return Ok(());
        }
        probe::point("before-position");
        ask!(self.shared.passage.lanes, lane => lane.save_positions(self.number, &self.source_name, &positions));
        probe::point("after-position");
        self.positions = positions;
        Ok(())
    }

    /// The books could not be kept: if the store is gone, wait for it here; if the run is over because of that, the loop sees it.
    async fn tried(&self, done: Result<(), StoreError>) {
        if let Err(error) = done
            // A deadlock or a lock: the next round is soon enough.
            && !matches!(error.trouble, Trouble::Rerun | Trouble::Busy)
            && self.shared.wait_for_store(error).await
        {
            self.shared.store_works();
        }
    }

    /// Lets the lanes finish: all they have at a natural end; at a stop only what is in work, within the grace time.
    async fn drain(&mut self, lanes: &mut JoinSet<()>, well: bool) -> Result<(), RunError> {
        if !well {
            self.shared.stop.stop();
        }
        self.senders.clear();
        let grace = tokio::time::sleep(self.shared.settings.grace);
        tokio::pin!(grace);
        loop {
            tokio::select! {
                ended = lanes.join_next() => match ended {
                    None => return Ok(()),
                    Some(Ok(())) => {}
                    Some(Err(error)) => {
                        lanes.abort_all();
                        let consumer = self.shared.name.clone();
                        return Err(RunError::Internal { consumer, text: error.to_string() });
                    }
                },
                () = &mut grace => {
                    tracing::warn!(consumer = %self.shared.name, "the grace time is over: what is still in work is rolled back and comes again");
                    lanes.abort_all();
                    while lanes.join_next().await.is_some() {}
                    return Ok(());
                }
            }
        }
    }
}
