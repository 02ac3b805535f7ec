//! One connection: claim, lend, prove, commit.

use crate::convert;
use crate::error::{code, store_error};
use crate::session::Hello;
use crate::{transaction, writes};
use semel_core::{
    Claim, ClaimKey, ClaimWait, Claimed, Claims, ConsumerNumber, Fingerprint, Lane, StoreError, Timestamp, Trouble,
    Writes, Written,
};
use sqlx::postgres::PgConnection;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Core's own time limit comes first; the server's is a second line behind it (law 13).
const LIMIT_MARGIN: Duration = Duration::from_secs(2);

/// A connection of its own to PostgreSQL, outside any pool: when the lane is dropped, at whatever moment, the socket
/// closes and the server rolls back.
#[derive(Debug)]
pub struct PostgresLane {
    pub(crate) conn: PgConnection,
    /// The session's own `lock_timeout`.
    lock_timeout: String,
    clock: (Timestamp, Instant),
    /// Transactions so far: the mark of the open one.
    transactions: u64,
    consumer: ConsumerNumber,
    /// The number of the open transaction, where its claim gave it one.
    transaction: Option<String>,
}

impl PostgresLane {
    pub(crate) fn new(conn: PgConnection, hello: Hello) -> Self {
        let Hello { lock_timeout, clock, .. } = hello;
        PostgresLane { conn, lock_timeout, clock, transactions: 0, consumer: ConsumerNumber(0), transaction: None }
    }

    /// Opens a transaction of semel's own, with a mark by which [`prove`](Self::prove) knows it again. `settings` are
    /// further statements.
    pub(crate) async fn open(&mut self, settings: &str) -> sqlx::Result<()> {
        self.transactions += 1;
        self.transaction = None;
        let mark = self.transactions;
        let text = format!("BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL semel.transaction = '{mark}'{settings}");
        transaction::begin(&mut self.conn, text).await
    }

    /// The mark of the open transaction.
    pub(crate) fn mark(&self) -> String {
        self.transactions.to_string()
    }

    async fn claim(&mut self, claims: &Claims<'_>) -> Result<Claimed, StoreError> {
        let Claims { consumer, keys, wait, .. } = claims;
        debug_assert!(keys.is_sorted_by(|a, b| a.id.as_bytes() < b.id.as_bytes()), "law 4");
        let waiting: Vec<&ClaimKey<'_>> = keys.iter().filter(|key| key.waiting.is_some()).collect();
        let new: Vec<&ClaimKey<'_>> = keys.iter().filter(|key| key.waiting.is_none()).collect();
        // With `Claim`, the last statement that waits puts the session's own limit back; with `Transaction`, the limit
        // stays (law 8).
        let back = matches!(wait, ClaimWait::Claim(_)).then_some(&*self.lock_timeout);
        let mut taken = Taken::default();
        if !waiting.is_empty() {
            let back = if new.is_empty() { back } else { None };
            taken.add(lock_waiting(&mut self.conn, *consumer, &waiting, back).await?);
        }
        let mut known = Known::default();
        if !new.is_empty() {
            let before = taken.ids.len();
            taken.add(insert_claims(&mut self.conn, *consumer, &new, back).await?);
            if taken.ids.len() - before < new.len() {
                let missing: Vec<&str> = new.iter().map(|key| key.id).filter(|id| !taken.ids.contains(*id)).collect();
                known = Known::of(&mut self.conn, *consumer, &missing).await?;
            }
        }
        self.transaction = taken.transaction;
        let claims = keys.iter().map(|key| match () {
            () if taken.ids.contains(key.id) => Ok(Claim::Fresh),
            () if key.waiting.is_some() => Ok(Claim::Duplicate),
            () => known.verdict(key).ok_or_else(|| {
                StoreError::new(
                    Trouble::Rerun,
                    "a claim was removed while it was read; the transaction can be run again",
                )
            }),
        });
        Ok(Claimed { claims: claims.collect::<Result<_, _>>()?, keys_held: taken.keys_held || known.keys_held })
    }

    /// That this very transaction lives and is not aborted (law 11). COMMIT is no proof: of an aborted transaction it
    /// answers ROLLBACK, without an error.
    ///
    /// What is proved: an aborted transaction refuses the statement; and the transaction's number is the one that the
    /// claim gave it. A transaction that has written nothing has no number, and must not get one (it would wait for the
    /// disk at COMMIT): it is known by the mark that its BEGIN set with SET LOCAL, which ends with it, whether a
    /// handler commits, rolls back or chains. A mark alone would be fooled by a RESET ALL, in the safe direction; a
    /// number by nothing. No code but semel's runs between this and COMMIT, and an error of those statements is an
    /// error: so the proof stands before the writes, which must not be made outside a transaction either.
    async fn prove(&mut self) -> Result<(), StoreError> {
        match transaction::depth(&self.conn) {
            1 => {}
            0 => return Err(StoreError::new(Trouble::Other, "no transaction is open")),
            _ => {
                let message = "the handler left a nested transaction open: what it begins with `begin()` it must commit or roll back";
                return Err(StoreError::new(Trouble::Other, message));
            }
        }
        let proof = sqlx::query_scalar(include_str!("../sql/prove.sql"))
            .bind(&self.transaction)
            .bind(self.mark())
            .fetch_one(&mut self.conn)
            .await
            .map_err(proof_error)?;
        match proof {
            true => Ok(()),
            false => Err(StoreError::new(
                Trouble::Other,
                "the handler ended the transaction itself (COMMIT or ROLLBACK as SQL): what it wrote is not tied to its claim. \
                 Leave the end to semel",
            )),
        }
    }
}

impl Lane for PostgresLane {
    type Conn = PgConnection;

    async fn begin(&mut self, claims: &Claims<'_>) -> Result<Claimed, StoreError> {
        self.consumer = claims.consumer;
        let limit = convert::setting(claims.time_limit.saturating_add(LIMIT_MARGIN));
        let mut settings =
            format!("; SET LOCAL statement_timeout = {limit}; SET LOCAL idle_in_transaction_session_timeout = {limit}");
        match claims.wait {
            // Without a claim there is no statement to put the limit back, and none that it is for.
            ClaimWait::Claim(_) if claims.keys.is_empty() => {}
            ClaimWait::Claim(wait) | ClaimWait::Transaction(wait) => {
                settings.push_str(&format!("; SET LOCAL lock_timeout = {}", convert::setting(wait)));
            }
        }
        self.open(&settings).await.map_err(|error| store_error("open a transaction", error))?;
        if claims.keys.is_empty() {
            return Ok(Claimed::default());
        }
        self.claim(claims).await
    }

    fn conn(&mut self) -> &mut PgConnection {
        &mut self.conn
    }

    async fn commit(&mut self, writes: &Writes) -> Result<Written, StoreError> {
        self.prove().await?;
        let written = writes::write(&mut self.conn, self.consumer, writes).await?;
        transaction::commit(&mut self.conn).await.map_err(|error| store_error("commit", error))?;
        Ok(written)
    }

    async fn rollback(&mut self) -> Result<(), StoreError> {
        transaction::rollback(&mut self.conn).await.map_err(|error| store_error("roll back", error))
    }

    fn now(&self) -> Timestamp {
        let (server, ours) = self.clock;
        server.plus(ours.elapsed())
    }
}

/// What this transaction has taken.
#[derive(Default)]
struct Taken {
    ids: HashSet<String>,
    transaction: Option<String>,
    keys_held: bool,
}

type TakenRow = (Option<Vec<String>>, Option<String>, bool, Option<String>);

impl Taken {
    fn add(&mut self, (ids, transaction, keys_held, _): TakenRow) {
        self.ids.extend(ids.unwrap_or_default());
        self.transaction = transaction.or(self.transaction.take());
        self.keys_held |= keys_held;
    }
}

async fn insert_claims(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    keys: &[&ClaimKey<'_>],
    lock_timeout: Option<&str>,
) -> Result<TakenRow, StoreError> {
    sqlx::query_as(include_str!("../sql/claim.sql"))
        .bind(consumer.0)
        .bind(keys.iter().map(|key| key.id).collect::<Vec<_>>())
        .bind(keys.iter().map(|key| convert::digest(&key.fingerprint)).collect::<Vec<_>>())
        .bind(keys.iter().map(|key| key.fingerprint.version).collect::<Vec<_>>())
        .bind(keys.iter().map(|key| key.time.map(convert::millis)).collect::<Vec<_>>())
        .bind(lock_timeout)
        .fetch_one(conn)
        .await
        .map_err(claim_error)
}

async fn lock_waiting(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    keys: &[&ClaimKey<'_>],
    lock_timeout: Option<&str>,
) -> Result<TakenRow, StoreError> {
    sqlx::query_as(include_str!("../sql/lock_waiting.sql"))
        .bind(consumer.0)
        .bind(keys.iter().map(|key| key.id).collect::<Vec<_>>())
        .bind(keys.iter().map(|key| convert::count(key.waiting.unwrap_or_default())).collect::<Vec<_>>())
        .bind(lock_timeout)
        .fetch_one(conn)
        .await
        .map_err(claim_error)
}

fn proof_error(error: sqlx::Error) -> StoreError {
    let idle = code(&error) == Some("25P03");
    match store_error("prove that the transaction lives", error) {
        // A deadlock that was hidden shows here where its answer had not been read.
        error if idle || matches!(error.trouble, Trouble::Unreachable | Trouble::Rerun) => error,
        error => StoreError {
            trouble: Trouble::Other,
            message: "the handler hid a database error: the transaction had failed before its end, and nothing of it was kept. \
                      Return the error, or put a statement that may fail into a nested transaction (`conn.begin()`)"
                .into(),
            source: error.source,
        },
    }
}

/// While claiming, a limit that ends a wait means a twin that holds the claim (law 8), whichever limit it was.
fn claim_error(error: sqlx::Error) -> StoreError {
    match code(&error) {
        Some("55P03" | "57014") => StoreError {
            trouble: Trouble::Busy,
            message: "another transaction holds the claim of a message of this batch; it can be claimed again when that one has ended".into(),
            source: Some(Box::new(error)),
        },
        _ => store_error("claim", error),
    }
}

/// What was claimed before.
#[derive(Default)]
pub(crate) struct Known {
    claims: HashMap<String, Fingerprint>,
    pub(crate) keys_held: bool,
}

impl Known {
    pub(crate) async fn of(
        conn: &mut PgConnection,
        consumer: ConsumerNumber,
        ids: &[&str],
    ) -> Result<Known, StoreError> {
        type Row = (Option<Vec<String>>, Option<Vec<Vec<u8>>>, Option<Vec<i16>>, bool);
        let (ids, digests, versions, keys_held): Row = sqlx::query_as(include_str!("../sql/verdicts.sql"))
            .bind(consumer.0)
            .bind(ids)
            .fetch_one(conn)
            .await
            .map_err(|error| store_error("read what was claimed", error))?;
        let prints = digests.into_iter().flatten().zip(versions.into_iter().flatten());
        let prints = prints.map(|(digest, version)| convert::fingerprint(version, &digest));
        Ok(Known { claims: ids.into_iter().flatten().zip(prints).collect(), keys_held })
    }

    /// `None` where there is no claim.
    pub(crate) fn verdict(&self, key: &ClaimKey<'_>) -> Option<Claim> {
        self.claims.get(key.id).map(|old| match key.fingerprint.matches(*old) {
            true => Claim::Duplicate,
            false => Claim::Conflict,
        })
    }
}
