//! What most checks stand on: a fresh database with semel's tables and the suite's own, a handle, and short words for what is done often.

use super::fixture::Fixture;
use semel_core::{
    AckPermit, Claim, ClaimKey, ClaimWait, Claimed, Claims, ConsumerNumber, DeadFilter, Envelope, Explained,
    Fingerprint, Lane, Outcome, ProcessError, Records, Semel, Setup, Store, StoredDeadLetter, Waiting, Writes,
};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// The suite's own tables.
pub(crate) const TABLES: &str = "
    create table effects (v text not null);
    create table sums (k text primary key, n bigint not null);
    insert into sums values ('a', 0), ('b', 0), ('c', 0);
    create table parents (id bigint primary key);
    create table children (parent bigint not null references parents (id) deferrable initially deferred);
";
/// How long something that must happen soon may take.
pub(crate) const SOON: Duration = Duration::from_secs(20);
/// More than any window of a check.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) type LaneOf<F> = <<F as Fixture>::Store as Store>::Lane;

/// A database for one check.
pub(crate) struct Stage<F: Fixture> {
    // Before the database: connections first.
    pub(crate) semel: Semel<F::Store>,
    pub(crate) database: F::Database,
}

impl<F: Fixture> Stage<F> {
    /// With 4 lanes, where the store can have them.
    pub(crate) async fn new(fixture: &F) -> Self {
        Stage::with_lanes(fixture, 4).await
    }

    pub(crate) async fn with_lanes(fixture: &F, lanes: usize) -> Self {
        let database = fixture.database().await;
        let semel = Semel::new(fixture.store(&database, lanes));
        semel.migrate(&[tables()]).await.expect("migrate an empty database");
        Stage { semel, database }
    }

    /// A second handle: what another process would have.
    pub(crate) fn another(&self, fixture: &F) -> Semel<F::Store> {
        Semel::new(fixture.store(&self.database, 4))
    }

    /// A lane that belongs to the check alone.
    pub(crate) async fn lane(&self) -> LaneOf<F> {
        self.semel.store().connect().await.expect("connect")
    }

    pub(crate) async fn number(&self, consumer: &str) -> ConsumerNumber {
        self.semel.register(consumer, None).await.expect("register")
    }

    /// All effects, sorted.
    pub(crate) async fn effects(&self) -> Vec<String> {
        let mut effects = F::read(&self.database, "select v from effects").await;
        effects.sort();
        effects
    }

    /// How often the effect `v` was written.
    pub(crate) async fn count(&self, v: &str) -> usize {
        self.effects().await.iter().filter(|effect| *effect == v).count()
    }

    pub(crate) async fn sum(&self, key: &str) -> i64 {
        let sql = format!("select cast(n as text) from sums where k = '{key}'");
        F::read(&self.database, &sql).await[0].parse().expect("a number")
    }

    /// Processes `message` for `consumer` with the message's id as its effect.
    pub(crate) async fn process(&self, consumer: &str, message: &Envelope) -> Outcome {
        process::<F>(&self.semel, consumer, message).await.expect("process").outcome()
    }

    pub(crate) async fn explain(&self, consumer: &str, id: &str) -> Option<Explained> {
        let mut lane = self.semel.lane().await.expect("a lane");
        let mut explained = lane.explain(Some(consumer), id).await.expect("explain");
        lane.done();
        assert!(explained.len() <= 1, "one consumer, one answer: {explained:?}");
        explained.pop().filter(|found| found.claim.is_some() || found.waiting.is_some() || !found.dead.is_empty())
    }

    pub(crate) async fn is_claimed(&self, consumer: &str, id: &str) -> bool {
        self.explain(consumer, id).await.is_some_and(|explained| explained.claim.is_some())
    }

    pub(crate) async fn dead_letters(&self) -> Vec<StoredDeadLetter> {
        self.dead_letters_where(&DeadFilter::default()).await
    }

    pub(crate) async fn dead_letters_where(&self, filter: &DeadFilter) -> Vec<StoredDeadLetter> {
        let mut lane = self.semel.lane().await.expect("a lane");
        let letters = lane.dead_letters(filter, 0, 1000).await.expect("dead_letters");
        lane.done();
        letters
    }

    pub(crate) async fn due(&self, consumer: ConsumerNumber) -> Vec<Waiting> {
        let mut lane = self.semel.lane().await.expect("a lane");
        let due = lane.due(consumer, 1000).await.expect("due");
        lane.done();
        due
    }

    /// One transaction: claims, writes, commits. All claims must be fresh.
    pub(crate) async fn commit(&self, consumer: ConsumerNumber, keys: &[ClaimKey<'_>], writes: &Writes) -> Vec<bool> {
        let mut lane = self.lane().await;
        let claimed = begin::<F>(&mut lane, consumer, keys).await;
        assert!(claimed.claims.iter().all(|claim| *claim == Claim::Fresh), "{claimed:?}");
        lane.commit(writes).await.expect("commit").dead_seen_before
    }

    /// One transaction without claims.
    pub(crate) async fn write(&self, consumer: ConsumerNumber, writes: &Writes) -> Vec<bool> {
        self.commit(consumer, &[], writes).await
    }

    /// Puts messages into the inbox, each under a claim of its own and in this order.
    pub(crate) async fn defer(&self, consumer: ConsumerNumber, messages: &[Waiting]) {
        for message in messages {
            let key = ClaimKey { fingerprint: message.fingerprint, time: message.time, ..key(&message.id) };
            self.commit(consumer, &[key], &Writes { waiting: vec![message.clone()], ..Writes::default() }).await;
        }
    }

    /// Nothing holds a transaction open, as soon as the database has noticed who is gone.
    pub(crate) async fn nobody_is_left_in_a_transaction(&self) {
        let began = Instant::now();
        loop {
            match F::open_transactions(&self.database).await {
                None | Some(0) => return,
                Some(open) => assert!(began.elapsed() < SOON, "{open} connections are left in a transaction"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

pub(crate) fn tables() -> Setup {
    Setup { name: "contract.sql".to_owned(), sql: TABLES.to_owned() }
}

/// Processes `message` with its id as the effect.
pub(crate) async fn process<F: Fixture>(
    semel: &Semel<F::Store>,
    consumer: &str,
    message: &Envelope,
) -> Result<AckPermit, ProcessError> {
    let effect = message.id.clone().unwrap_or_default();
    semel.process(consumer, message, async move |tx| Ok(F::write(tx.conn(), &effect).await?)).await
}

/// Begins, waiting for twins as `process` does.
pub(crate) async fn begin<F: Fixture>(
    lane: &mut LaneOf<F>,
    consumer: ConsumerNumber,
    keys: &[ClaimKey<'_>],
) -> Claimed {
    lane.begin(&claims(consumer, keys)).await.expect("begin")
}

pub(crate) fn claims<'a>(consumer: ConsumerNumber, keys: &'a [ClaimKey<'a>]) -> Claims<'a> {
    Claims { consumer, keys, wait: ClaimWait::Claim(Duration::from_secs(5)), time_limit: Duration::from_secs(30) }
}

pub(crate) fn key(id: &str) -> ClaimKey<'_> {
    ClaimKey { id, fingerprint: print(1), time: None, waiting: None }
}

/// The key of a message that waits after `attempts` tries.
pub(crate) fn waiting_key(id: &str, attempts: u32) -> ClaimKey<'_> {
    ClaimKey { waiting: Some(attempts), ..key(id) }
}

/// A fingerprint of the usual version; another number is another content.
pub(crate) fn print(number: u8) -> Fingerprint {
    Fingerprint { version: 1, digest: [number; 16] }
}

/// A message that waits, due at once, without a key.
pub(crate) fn waiting(id: &str) -> Waiting {
    Waiting {
        id: id.to_owned(),
        kind: "note".to_owned(),
        key: None,
        time: None,
        fingerprint: print(1),
        attempts: 0,
        holds: false,
        delay: Duration::ZERO,
        error: "not yet".to_owned(),
        instance: "here".to_owned(),
        envelope: Envelope::new(id, "body"),
    }
}

pub(crate) fn ids(waiting: &[Waiting]) -> Vec<&str> {
    waiting.iter().map(|message| &*message.id).collect()
}

/// The answer of a spawned task; its panic is this check's panic.
pub(crate) async fn joined<T>(task: JoinHandle<T>) -> T {
    task.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

/// Polls until `done` answers something.
pub(crate) async fn eventually<T>(what: &str, mut done: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = done().await {
            return answer;
        }
        assert!(began.elapsed() < SOON, "not within {} s: {what}", SOON.as_secs());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
