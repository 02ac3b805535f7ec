//! One connection: claim, lend, prove, commit.

use crate::convert;
use crate::error::{code, store_error};
use crate::session::Hello;
use crate::transaction::BEGIN;
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

/// A transaction that was begun ahead is used within this time.
const CHAIN_MAX: Duration = Duration::from_millis(20);
const ENDED: &str = "the handler ended the transaction itself (COMMIT or ROLLBACK as SQL): what it wrote is not tied to its claim. \
                     Leave the end to semel";

/// The server's limit for one statement of a transaction, and for its idling.
fn limit(time_limit: Duration) -> i64 {
    convert::setting(time_limit.saturating_add(LIMIT_MARGIN))
}

/// Limits that a claim sets for itself and for what follows.
struct Limits<'a> {
    /// The longest wait for a twin.
    wait: String,
    /// The `lock_timeout` to go back to after the claim, or none.
    back: Option<&'a str>,
    /// For statements, and for idling.
    run: i64,
}

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
    /// Whether the open transaction has a mark.
    marked: bool,
    /// Since when the next transaction is open already: it was begun in the round trip that ended the last one.
    chained: Option<Instant>,
}

impl PostgresLane {
    pub(crate) fn new(conn: PgConnection, hello: Hello) -> Self {
        let Hello { lock_timeout, clock, .. } = hello;
        PostgresLane {
            conn,
            lock_timeout,
            clock,
            transactions: 0,
            consumer: ConsumerNumber(0),
            transaction: None,
            marked: false,
            chained: None,
        }
    }

    /// Opens a transaction of semel's own, with a mark by which [`prove`](Self::prove) knows it again. `settings` are further statements.
    pub(crate) async fn open(&mut self, settings: &str) -> sqlx::Result<()> {
        self.transactions += 1;
        self.transaction = None;
        self.marked = true;
        let mark = self.transactions;
        let text = format!("{BEGIN}; SET LOCAL semel.transaction = '{mark}'{settings}");
        match self.chained.take() {
            Some(_) => transaction::begin_anew(&mut self.conn, &text).await,
            None => transaction::begin(&mut self.conn, text).await,
        }
    }

    /// Opens a transaction for claims, which bring their settings along. Without a round trip where the last one left it open: not for long,
    /// since its `now()` is that of its BEGIN.
    async fn open_for_claims(&mut self) -> sqlx::Result<()> {
        self.transaction = None;
        self.marked = false;
        match self.chained.take() {
            Some(since) if since.elapsed() < CHAIN_MAX => Ok(()),
            Some(_) => transaction::begin_anew(&mut self.conn, BEGIN).await,
            None => transaction::begin(&mut self.conn, BEGIN.to_owned()).await,
        }
    }

    /// The connection outside any transaction.
    pub(crate) async fn outside(&mut self) -> Result<&mut PgConnection, StoreError> {
        if self.chained.take().is_some() {
            transaction::rollback(&mut self.conn)
                .await
                .map_err(|error| store_error("end an empty transaction", error))?;
        }
        Ok(&mut self.conn)
    }

    /// The mark of the open transaction.
    pub(crate) fn mark(&self) -> String {
        self.transactions.to_string()
    }

    async fn claim(&mut self, claims: &Claims<'_>) -> Result<Claimed, StoreError> {
        let Claims { consumer, keys, wait, time_limit } = claims;
        debug_assert!(keys.is_sorted_by(|a, b| a.id.as_bytes() < b.id.as_bytes()), "law 4");
        let waiting: Vec<&ClaimKey<'_>> = keys.iter().filter(|key| key.waiting.is_some()).collect();
        let new: Vec<&ClaimKey<'_>> = keys.iter().filter(|key| key.waiting.is_none()).collect();
        // With `Claim`, the last statement that waits puts the session's own limit back; with `Transaction`, the limit
        // stays (law 8).
        let back = matches!(wait, ClaimWait::Claim(_)).then_some(&*self.lock_timeout);
        let mut taken = Taken::default();
        if !waiting.is_empty() {
            taken.add(lock_waiting(&mut self.conn, *consumer, &waiting, limit(*time_limit)).await?);
        }
        let mut known = Known::default();
        if !new.is_empty() {
            let before = taken.ids.len();
            let (ClaimWait::Claim(wait) | ClaimWait::Transaction(wait)) = wait;
            let limits = Limits { wait: convert::setting(*wait).to_string(), back, run: limit(*time_limit) };
            match new[..] {
                [key] => taken.add_one(key, insert_claim(&mut self.conn, *consumer, key, &limits).await?),
                _ => taken.add(insert_claims(&mut self.conn, *consumer, &new, &limits).await?),
            }
            if taken.ids.len() - before < new.len() {
                let missing: Vec<&str> = new.iter().map(|key| key.id).filter(|id| !taken.ids.contains(*id)).collect();
                known = Known::of(&mut self.conn, *consumer, &missing, back).await?;
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

    fn check_depth(&self) -> Result<(), StoreError> {
        match transaction::depth(&self.conn) {
            1 => Ok(()),
            0 => Err(StoreError::new(Trouble::Other, "no transaction is open")),
            _ => {
                let message = "the handler left a nested transaction open: what it begins with `begin()` it must commit or roll back";
                Err(StoreError::new(Trouble::Other, message))
            }
        }
    }

    /// Proof, COMMIT and the next BEGIN in one round trip: PostgreSQL stops at the first statement that fails, so without the proof there is no
    /// COMMIT, and without COMMIT no BEGIN.
    async fn end_proved(&mut self, number: u64) -> Result<(), StoreError> {
        self.check_depth()?;
        transaction::end(&mut self.conn, number).await.map_err(|error| match code(&error) {
            Some(transaction::NOT_OURS) => StoreError::new(Trouble::Other, ENDED),
            Some("25P02" | "25P03") => proof_error(error),
            _ => store_error("commit", error),
        })?;
        self.chained = Some(Instant::now());
        Ok(())
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
        self.check_depth()?;
        if self.transaction.is_none() && !self.marked {
            // Everything was known, so nobody's work ran. Fails in an aborted transaction and outside any.
            sqlx::raw_sql("SAVEPOINT semel_proof").execute(&mut self.conn).await.map_err(proof_error)?;
        }
        let proof = sqlx::query_scalar(include_str!("../sql/prove.sql"))
            .bind(&self.transaction)
            .bind(self.marked.then(|| self.mark()))
            .fetch_one(&mut self.conn)
            .await
            .map_err(proof_error)?;
        match proof {
            true => Ok(()),
            false => Err(StoreError::new(Trouble::Other, ENDED)),
        }
    }
}

impl Lane for PostgresLane {
    type Conn = PgConnection;

    async fn begin(&mut self, claims: &Claims<'_>) -> Result<Claimed, StoreError> {
        self.consumer = claims.consumer;
        let failed = |error| store_error("open a transaction", error);
        if claims.keys.is_empty() {
            let limit = limit(claims.time_limit);
            let mut settings = format!(
                "; SET LOCAL statement_timeout = {limit}; SET LOCAL idle_in_transaction_session_timeout = {limit}"
            );
            if let ClaimWait::Transaction(wait) = claims.wait {
                settings.push_str(&format!("; SET LOCAL lock_timeout = {}", convert::setting(wait)));
            }
            self.open(&settings).await.map_err(failed)?;
            return Ok(Claimed::default());
        }
        self.open_for_claims().await.map_err(failed)?;
        self.claim(claims).await
    }

    fn conn(&mut self) -> &mut PgConnection {
        &mut self.conn
    }

    async fn commit(&mut self, writes: &Writes) -> Result<Written, StoreError> {
        if semel_core::planted("no-proof") {
            let written = writes::write(&mut self.conn, self.consumer, writes).await?;
            transaction::commit(&mut self.conn).await.map_err(|error| store_error("commit", error))?;
            return Ok(written);
        }
        if let (Some(number), true) =
            (self.transaction.as_deref().and_then(|number| number.parse().ok()), writes.is_empty())
        {
            self.end_proved(number).await?;
            return Ok(Written::default());
        }
        self.prove().await?;
        let written = writes::write(&mut self.conn, self.consumer, writes).await?;
        transaction::commit(&mut self.conn).await.map_err(|error| store_error("commit", error))?;
        Ok(written)
    }

    async fn rollback(&mut self) -> Result<(), StoreError> {
        let failed = |error| store_error("roll back", error);
        if transaction::depth(&self.conn) != 1 {
            return transaction::rollback(&mut self.conn).await.map_err(failed);
        }
        transaction::begin_anew(&mut self.conn, BEGIN).await.map_err(failed)?;
        self.chained = Some(Instant::now());
        Ok(())
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
/// How many were claimed; which, only where not all were; the rest as in [`TakenRow`].
type ClaimedRow = (i64, Option<Vec<String>>, Option<String>, bool, Option<String>);

impl Taken {
    fn add_one(&mut self, key: &ClaimKey<'_>, row: Option<(String, bool)>) {
        let Some((transaction, keys_held)) = row else { return };
        self.add((Some(vec![key.id.to_owned()]), Some(transaction), keys_held, None));
    }

    fn add(&mut self, (ids, transaction, keys_held, _): TakenRow) {
        self.ids.extend(ids.unwrap_or_default());
        self.transaction = transaction.or(self.transaction.take());
        self.keys_held |= keys_held;
    }
}

async fn insert_claim(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    key: &ClaimKey<'_>,
    limits: &Limits<'_>,
) -> Result<Option<(String, bool)>, StoreError> {
    let row: Option<(String, bool, Option<String>)> = sqlx::query_as(include_str!("../sql/claim_one.sql"))
        .bind(consumer.0)
        .bind(key.id)
        .bind(convert::digest(&key.fingerprint))
        .bind(key.fingerprint.version)
        .bind(key.time.map(convert::millis))
        .bind(&limits.wait)
        .bind(limits.run.to_string())
        .bind(limits.back)
        .fetch_optional(conn)
        .await
        .map_err(claim_error)?;
    Ok(row.map(|(transaction, keys_held, _)| (transaction, keys_held)))
}

async fn insert_claims(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    keys: &[&ClaimKey<'_>],
    limits: &Limits<'_>,
) -> Result<TakenRow, StoreError> {
    let (count, ids, transaction, keys_held, _): ClaimedRow = sqlx::query_as(include_str!("../sql/claim.sql"))
        .bind(consumer.0)
        .bind(keys.iter().map(|key| key.id).collect::<Vec<_>>())
        .bind(keys.iter().map(|key| convert::digest(&key.fingerprint)).collect::<Vec<_>>())
        .bind(keys.iter().map(|key| key.fingerprint.version).collect::<Vec<_>>())
        .bind(keys.iter().map(|key| key.time.map(convert::millis)).collect::<Vec<_>>())
        .bind(&limits.wait)
        .bind(limits.run.to_string())
        .bind(limits.back)
        .fetch_one(conn)
        .await
        .map_err(claim_error)?;
    let all = || keys.iter().map(|key| key.id.to_owned()).collect();
    let ids = if count == keys.len() as i64 { Some(all()) } else { ids };
    Ok((ids, transaction, keys_held, None))
}

async fn lock_waiting(
    conn: &mut PgConnection,
    consumer: ConsumerNumber,
    keys: &[&ClaimKey<'_>],
    limit: i64,
) -> Result<TakenRow, StoreError> {
    sqlx::query_as(include_str!("../sql/lock_waiting.sql"))
        .bind(consumer.0)
        .bind(keys.iter().map(|key| key.id).collect::<Vec<_>>())
        .bind(keys.iter().map(|key| convert::count(key.waiting.unwrap_or_default())).collect::<Vec<_>>())
        .bind(limit.to_string())
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
        lock_timeout: Option<&str>,
    ) -> Result<Known, StoreError> {
        type Row = (Option<Vec<String>>, Option<Vec<Vec<u8>>>, Option<Vec<i16>>, bool, Option<String>);
        let (ids, digests, versions, keys_held, _): Row = sqlx::query_as(include_str!("../sql/verdicts.sql"))
            .bind(consumer.0)
            .bind(ids)
            .bind(lock_timeout)
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
