//! A fresh database for each test, on the server that SEMEL_TEST_POSTGRES names (a role that may create databases and
//! roles).
#![allow(dead_code)]

use semel_core::{
    Claim, ClaimKey, ClaimWait, Claimed, Claims, ConsumerNumber, DeadLetter, Envelope, Fingerprint, FingerprintOf,
    Lane, Reason, Records, Store, StoreError, Waiting, Writes,
};
use semel_postgres::{Postgres, PostgresLane};
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection, Executor};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A database that is dropped with this value.
pub(crate) struct Database {
    server: String,
    name: String,
}

impl Database {
    /// `None` where there is no server to test on.
    pub(crate) async fn empty() -> Option<Database> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let Ok(server) = std::env::var("SEMEL_TEST_POSTGRES") else {
            eprintln!("skipped: SEMEL_TEST_POSTGRES names no server");
            return None;
        };
        let name = format!("semel_pg_{}_{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let mut conn = PgConnection::connect(&server).await.expect("SEMEL_TEST_POSTGRES");
        let create = format!("create database {name} template template0 encoding 'UTF8'");
        conn.execute(AssertSqlSafe(create)).await.unwrap();
        Some(Database { server, name })
    }

    /// With semel's tables, and a table `effect`.
    pub(crate) async fn fresh() -> Option<Database> {
        let database = Database::empty().await?;
        let mut lane = database.lane().await;
        lane.migrate(&[]).await.unwrap();
        execute(lane.conn(), "create table effect (v text)").await;
        Some(database)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The URL, with this after the database's name.
    pub(crate) fn url(&self, more: &str) -> String {
        let server = self.server.split('?').next().unwrap();
        let (place, _) = server.rsplit_once('/').expect("a URL with a database");
        format!("{place}/{}{more}", self.name)
    }

    /// The URL as another role.
    pub(crate) fn url_as(&self, role: &str) -> String {
        let url = self.url("");
        let (scheme, rest) = url.split_once("://").unwrap();
        let place = rest.rsplit_once('@').map_or(rest, |(_, place)| place);
        format!("{scheme}://{role}@{place}")
    }

    pub(crate) fn store(&self) -> Postgres {
        Postgres::new(&self.url("")).unwrap()
    }

    pub(crate) async fn lane(&self) -> PostgresLane {
        self.store().connect().await.unwrap()
    }

    /// A connection that is none of semel's.
    pub(crate) async fn conn(&self) -> PgConnection {
        PgConnection::connect(&self.url("")).await.unwrap()
    }

    /// One number, asked on a connection of its own.
    pub(crate) async fn count(&self, query: &str) -> i64 {
        let mut conn = self.conn().await;
        sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(&mut conn).await.unwrap()
    }

    pub(crate) async fn claims(&self) -> i64 {
        self.count("select count(*) from semel.claim").await
    }

    pub(crate) async fn effects(&self) -> i64 {
        self.count("select count(*) from effect").await
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let (server, drop) = (self.server.clone(), format!("drop database if exists {} with (force)", self.name));
        let dropped = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut conn = PgConnection::connect(&server).await.unwrap();
                conn.execute(AssertSqlSafe(drop)).await.unwrap();
            });
        });
        dropped.join().ok();
    }
}

/// A lane's connection outside any transaction: what is asked of the records ends one that was begun ahead.
pub(crate) async fn outside(lane: &mut PostgresLane) -> &mut PgConnection {
    lane.instances(ConsumerNumber(0)).await.unwrap();
    lane.conn()
}

pub(crate) async fn execute(conn: &mut PgConnection, sql: &str) {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
}

pub(crate) async fn text(conn: &mut PgConnection, query: &str) -> Option<String> {
    sqlx::query_scalar(AssertSqlSafe(query)).fetch_one(conn).await.unwrap_or_else(|error| panic!("{query}: {error}"))
}

pub(crate) async fn write(lane: &mut PostgresLane, value: &str) {
    sqlx::query("insert into effect values ($1)").bind(value).execute(lane.conn()).await.unwrap();
}

pub(crate) fn print(content: &str) -> Fingerprint {
    FingerprintOf::Body.of(None, content.as_bytes(), None)
}

/// A key that was not claimed before, as far as its sender knows.
pub(crate) fn key<'a>(id: &'a str, content: &str) -> ClaimKey<'a> {
    ClaimKey { id, fingerprint: print(content), time: None, waiting: None }
}

pub(crate) fn waiting_key(id: &str, attempts: u32) -> ClaimKey<'_> {
    ClaimKey { waiting: Some(attempts), ..key(id, "") }
}

pub(crate) const WAIT: ClaimWait = ClaimWait::Claim(Duration::from_millis(300));

pub(crate) fn claims<'a>(consumer: ConsumerNumber, keys: &'a [ClaimKey<'a>]) -> Claims<'a> {
    Claims { consumer, keys, wait: WAIT, time_limit: Duration::from_secs(30) }
}

pub(crate) async fn begin(lane: &mut PostgresLane, consumer: ConsumerNumber, keys: &[ClaimKey<'_>]) -> Claimed {
    lane.begin(&claims(consumer, keys)).await.unwrap()
}

/// Claims one id, does one thing, commits.
pub(crate) async fn process(
    lane: &mut PostgresLane,
    consumer: ConsumerNumber,
    id: &str,
    content: &str,
) -> Result<Claim, StoreError> {
    let claimed = lane.begin(&claims(consumer, &[key(id, content)])).await?;
    if claimed.claims == [Claim::Fresh] {
        write(lane, id).await;
        lane.commit(&Writes::default()).await?;
    } else {
        lane.rollback().await?;
    }
    Ok(claimed.claims[0])
}

pub(crate) fn waiting(id: &str, key: Option<&str>) -> Waiting {
    Waiting {
        id: id.into(),
        kind: "k".into(),
        key: key.map(Into::into),
        time: None,
        fingerprint: print(id),
        attempts: 1,
        holds: key.is_some(),
        delay: Duration::ZERO,
        error: "no".into(),
        instance: "i".into(),
        envelope: Envelope::new(id, id),
    }
}

pub(crate) fn letter(reason: Reason, id: Option<&str>, content: &str) -> DeadLetter {
    DeadLetter {
        reason,
        id: id.map(Into::into),
        kind: "k".into(),
        key: None,
        time: None,
        fingerprint: print(content),
        error: "no".into(),
        attempts: 1,
        envelope: Envelope { id: id.map(Into::into), body: content.into(), ..Envelope::default() },
    }
}

/// Claims these ids and lets them wait.
pub(crate) async fn let_wait(lane: &mut PostgresLane, consumer: ConsumerNumber, all: &[Waiting]) {
    let mut keys: Vec<ClaimKey<'_>> =
        all.iter().map(|w| ClaimKey { id: &w.id, fingerprint: w.fingerprint, time: w.time, waiting: None }).collect();
    keys.sort_by_key(|key| key.id);
    let claimed = begin(lane, consumer, &keys).await;
    assert!(claimed.claims.iter().all(|claim| *claim == Claim::Fresh));
    lane.commit(&Writes { waiting: all.to_vec(), ..Writes::default() }).await.unwrap();
}

/// Stores a dead letter, with its claim where its reason has one; answers its number.
pub(crate) async fn bury(lane: &mut PostgresLane, consumer: ConsumerNumber, letter: &DeadLetter) -> i64 {
    let keys: Vec<ClaimKey<'_>> = match (&letter.id, letter.reason.claims()) {
        (Some(id), true) => vec![ClaimKey { id, fingerprint: letter.fingerprint, time: letter.time, waiting: None }],
        _ => Vec::new(),
    };
    begin(lane, consumer, &keys).await;
    lane.commit(&Writes { dead: vec![letter.clone()], ..Writes::default() }).await.unwrap();
    sqlx::query_scalar("select max(number) from semel.dead_letter").fetch_one(lane.conn()).await.unwrap()
}
