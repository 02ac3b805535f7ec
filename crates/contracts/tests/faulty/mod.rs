//! SQLite with one law broken.

use semel_contracts::store::{Differences, Fixture};
use semel_core::{
    Attempt, Claim, ClaimKey, Claimed, Claims, ConsumerNumber, ConsumerStatus, DeadFilter, Discarded, Explained,
    Fingerprint, Forgotten, Instance, Lane, Positions, Records, Replayed, Seen, Setup, Store, StoreError,
    StoredDeadLetter, SweptStep, Timestamp, Trouble, Waiting, Writes, Written,
};
use semel_sqlite::{Sqlite, SqliteLane};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use std::error::Error as StdError;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

/// What is wrong with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing: the wrapper itself breaks no law.
    None,
    /// A dropped lane goes back to a pool, with whatever it was doing.
    PoolsDroppedLanes,
    /// What was claimed before is said to be fresh.
    SaysFreshForDuplicates,
    /// What has other content is said to be a duplicate.
    SaysDuplicateForConflicts,
    /// A fingerprint of another version is compared all the same.
    ComparesAllVersions,
    /// The claim is committed before the work.
    ClaimsInAnotherTransaction,
    /// Ids are compared without regard to case.
    FoldsIds,
    /// Ids are cut to 254 bytes.
    CutsIds,
    /// A COMMIT that did not commit is taken for one.
    TrustsCommit,
    /// What waits is acknowledged and not written down.
    LosesWaiting,
    /// Dead letters are acknowledged and not written down.
    LosesDeadLetters,
    /// What is done stays in the inbox.
    FinishesNothing,
    /// Attempts stay open.
    ClosesNothing,
    /// Nobody waits behind anybody.
    HoldsNoKeys,
    /// Nobody is too old.
    HasNoFloor,
    /// There is always more to sweep.
    SweepsForEver,
    /// Every id is unknown to `look`.
    LooksAway,
    /// A setup that was changed is run again under another name.
    TakesChangedSetups,
    /// Discarding leaves the dead letter.
    DiscardsNothing,
}

#[derive(Clone)]
pub(crate) struct Faulty {
    inner: Sqlite,
    fault: Fault,
    pool: Arc<Mutex<Vec<SqliteLane>>>,
}

impl Store for Faulty {
    type Conn = SqliteConnection;
    type Lane = FaultyLane;

    async fn connect(&self) -> Result<FaultyLane, StoreError> {
        let pooled = self.pool.lock().unwrap().pop();
        let inner = match pooled {
            Some(pooled) => pooled,
            None => self.inner.connect().await?,
        };
        Ok(FaultyLane { inner: Some(inner), store: self.clone() })
    }
    fn lanes_max(&self) -> usize {
        self.inner.lanes_max()
    }
    fn trouble(error: &(dyn StdError + 'static)) -> Trouble {
        Sqlite::trouble(error)
    }
}

pub(crate) struct FaultyLane {
    inner: Option<SqliteLane>,
    store: Faulty,
}

impl Drop for FaultyLane {
    fn drop(&mut self) {
        if self.has(Fault::PoolsDroppedLanes) {
            self.store.pool.lock().unwrap().extend(self.inner.take());
        }
    }
}

impl FaultyLane {
    fn has(&self, fault: Fault) -> bool {
        self.store.fault == fault
    }

    fn inner(&mut self) -> &mut SqliteLane {
        self.inner.as_mut().unwrap()
    }

    fn id(&self, id: &str) -> String {
        match self.store.fault {
            Fault::FoldsIds => id.to_lowercase(),
            Fault::CutsIds => id.chars().take(254).collect(),
            _ => id.to_owned(),
        }
    }

    fn claimed(&self, mut claimed: Claimed) -> Claimed {
        for claim in &mut claimed.claims {
            *claim = match (*claim, self.store.fault) {
                (Claim::Duplicate, Fault::SaysFreshForDuplicates) => Claim::Fresh,
                (Claim::Conflict, Fault::SaysDuplicateForConflicts) => Claim::Duplicate,
                (claim, _) => claim,
            };
        }
        claimed.keys_held &= !self.has(Fault::HoldsNoKeys);
        claimed
    }

    fn fingerprint(&self, fingerprint: Fingerprint) -> Fingerprint {
        match self.has(Fault::ComparesAllVersions) {
            true => Fingerprint { version: 1, ..fingerprint },
            false => fingerprint,
        }
    }
}

impl Lane for FaultyLane {
    type Conn = SqliteConnection;

    async fn begin(&mut self, claims: &Claims<'_>) -> Result<Claimed, StoreError> {
        let ids: Vec<String> = claims.keys.iter().map(|key| self.id(key.id)).collect();
        let mut keys: Vec<ClaimKey<'_>> = Vec::new();
        for (key, id) in claims.keys.iter().zip(&ids) {
            keys.push(ClaimKey { id, fingerprint: self.fingerprint(key.fingerprint), ..*key });
        }
        let asked = Claims { keys: &keys, ..*claims };
        let claimed = self.inner().begin(&asked).await?;
        if self.has(Fault::ClaimsInAnotherTransaction) {
            self.inner().commit(&Writes::default()).await?;
            self.inner().begin(&Claims { keys: &[], ..asked }).await?;
        }
        Ok(self.claimed(claimed))
    }

    fn conn(&mut self) -> &mut SqliteConnection {
        self.inner().conn()
    }

    async fn commit(&mut self, writes: &Writes) -> Result<Written, StoreError> {
        let keeps = |fault| !self.has(fault);
        let writes = Writes {
            waiting: writes.waiting.iter().filter(|_| keeps(Fault::LosesWaiting)).cloned().collect(),
            retried: writes.retried.clone(),
            finished: writes.finished.iter().filter(|_| keeps(Fault::FinishesNothing)).cloned().collect(),
            dead: writes.dead.iter().filter(|_| keeps(Fault::LosesDeadLetters)).cloned().collect(),
            closed: writes.closed.iter().filter(|_| keeps(Fault::ClosesNothing)).cloned().collect(),
        };
        match self.inner().commit(&writes).await {
            Err(_) if self.has(Fault::TrustsCommit) => Ok(Written::default()),
            written => written,
        }
    }

    async fn rollback(&mut self) -> Result<(), StoreError> {
        self.inner().rollback().await
    }

    fn now(&self) -> Timestamp {
        self.inner.as_ref().unwrap().now()
    }
}

type Answer<T> = Result<T, StoreError>;

macro_rules! delegate {
    ($($name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)*) => {
        $(async fn $name(&mut self, $($argument: $type),*) -> Answer<$answer> {
            self.inner().$name($($argument),*).await
        })*
    };
}

impl Records for FaultyLane {
    delegate! {
        check_schema() -> ();
        register(consumer: &str, window: Option<Duration>) -> ConsumerNumber;
        consumer(name: &str) -> Option<ConsumerNumber>;
        positions(consumer: ConsumerNumber, source: &str) -> Positions;
        save_positions(consumer: ConsumerNumber, source: &str, positions: &Positions) -> ();
        beat(consumer: ConsumerNumber, instance: &Instance) -> ();
        instances(consumer: ConsumerNumber) -> Vec<Seen>;
        remove_instance(consumer: ConsumerNumber, instance: &str) -> ();
        attempt(consumer: ConsumerNumber, id: &str) -> Option<Attempt>;
        open_attempt(consumer: ConsumerNumber, id: &str, attempt: &Attempt) -> ();
        due(consumer: ConsumerNumber, max: usize) -> Vec<Waiting>;
        next_due(consumer: ConsumerNumber) -> Option<Duration>;
        status() -> Vec<ConsumerStatus>;
        explain(consumer: Option<&str>, id: &str) -> Vec<Explained>;
        forget(consumer: &str, id: &str) -> Forgotten;
        dead_letters(filter: &DeadFilter, after: i64, max: usize) -> Vec<StoredDeadLetter>;
        replay(number: i64, waiting: &Waiting, replaces: Option<i64>) -> Replayed;
    }

    async fn migrate(&mut self, setups: &[Setup]) -> Answer<()> {
        match self.inner().migrate(setups).await {
            Err(error) if error.trouble == Trouble::Schema && self.has(Fault::TakesChangedSetups) => Ok(()),
            migrated => migrated,
        }
    }

    async fn look(&mut self, consumer: ConsumerNumber, keys: &[ClaimKey<'_>]) -> Answer<Claimed> {
        let looked = self.inner().look(consumer, keys).await?;
        match self.has(Fault::LooksAway) {
            true => Ok(Claimed { claims: vec![Claim::Fresh; keys.len()], ..looked }),
            false => Ok(self.claimed(looked)),
        }
    }

    async fn held_keys(&mut self, consumer: ConsumerNumber, keys: &[&str]) -> Answer<Vec<String>> {
        let held = self.inner().held_keys(consumer, keys).await?;
        Ok(if self.has(Fault::HoldsNoKeys) { Vec::new() } else { held })
    }

    async fn floor(&mut self, consumer: ConsumerNumber) -> Answer<Option<Timestamp>> {
        let floor = self.inner().floor(consumer).await?;
        Ok(floor.filter(|_| !self.has(Fault::HasNoFloor)))
    }

    async fn sweep(&mut self, consumer: ConsumerNumber, window: Duration, rows: u32) -> Answer<SweptStep> {
        let step = self.inner().sweep(consumer, window, rows).await?;
        Ok(SweptStep { more: step.more || self.has(Fault::SweepsForEver), ..step })
    }

    async fn discard(&mut self, number: i64) -> Answer<Discarded> {
        match self.has(Fault::DiscardsNothing) {
            true => Ok(Discarded::Done),
            false => self.inner().discard(number).await,
        }
    }
}

/// The fixture of the faulty store.
pub(crate) struct On(pub(crate) Fault);

async fn connect(directory: &TempDir) -> SqliteConnection {
    SqliteConnectOptions::new().filename(directory.path().join("contract.db")).connect().await.unwrap()
}

impl Fixture for On {
    type Store = Faulty;
    type Database = TempDir;
    type Error = sqlx::Error;

    const DIFFERENCES: Differences = Differences {
        swallowed_error_poisons: false,
        prevents_raw_commit: true,
        writes_in_parallel: false,
        locks_rows: false,
        defers_constraints: true,
    };

    async fn database(&self) -> TempDir {
        tempfile::tempdir().unwrap()
    }
    fn store(&self, directory: &TempDir, _lanes: usize) -> Faulty {
        // No check of a broken store should wait long for its own mess.
        let inner =
            Sqlite::open(directory.path().join("contract.db")).unwrap().busy_timeout(Duration::from_millis(500));
        Faulty { inner, fault: self.0, pool: Arc::default() }
    }
    async fn execute(conn: &mut SqliteConnection, sql: &str) -> sqlx::Result<()> {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop)
    }
    async fn write(conn: &mut SqliteConnection, v: &str) -> sqlx::Result<()> {
        sqlx::query("insert into effects (v) values ($1)").bind(v).execute(conn).await.map(drop)
    }
    async fn leak(conn: &mut SqliteConnection) -> sqlx::Result<()> {
        std::mem::forget(conn.begin().await?);
        Ok(())
    }
    async fn read(directory: &TempDir, sql: &str) -> Vec<String> {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_all(&mut connect(directory).await).await.unwrap()
    }
    async fn age(directory: &TempDir, by: Duration) {
        let sql = "update semel_claim set claimed_at = claimed_at - $1";
        sqlx::query(sql).bind(by.as_millis() as i64).execute(&mut connect(directory).await).await.unwrap();
    }
}
