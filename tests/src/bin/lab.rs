//! A consumer whose handler does what each message says, also what no handler should do: `lab STORE FILE [MILLISECONDS]`, where the last
//! is the handler's time limit.
//!
//! Prints the summary as JSON. The business table is `effect(id text)`.
#![allow(clippy::print_stdout, reason = "a program whose output is read by tests")]

use semel::{
    Consumer, Handler, HandlerError, HandlerResult, Identity, Message, Pick, Postgres, RetryPlan, Semel, Settings,
    Setup, Sqlite, Store, Tx,
};
use serde::{Deserialize, Serialize};
use sqlx::{Connection, PgConnection, SqliteConnection};
use std::time::Duration;

#[derive(Serialize, Deserialize)]
struct Task {
    id: String,
    #[serde(rename = "do")]
    act: String,
}

impl Message for Task {
    const KIND: &'static str = "task";
}

/// What the handler needs of a database.
trait Database: Store {
    /// Keeps the database busy for longer than anybody waits.
    const ENDLESS: &'static str;
    fn insert(conn: &mut Self::Conn, id: &str) -> impl Future<Output = sqlx::Result<()>> + Send;
    fn run(conn: &mut Self::Conn, sql: &'static str) -> impl Future<Output = sqlx::Result<()>> + Send;
    fn leak_a_savepoint(conn: &mut Self::Conn) -> impl Future<Output = ()> + Send;
}

impl Database for Sqlite {
    const ENDLESS: &'static str =
        "with recursive n(i) as (select 1 union all select i + 1 from n) select max(i) from n";
    async fn insert(conn: &mut SqliteConnection, id: &str) -> sqlx::Result<()> {
        sqlx::query("insert into effect (id) values (?)").bind(id).execute(conn).await.map(drop)
    }
    async fn run(conn: &mut SqliteConnection, sql: &'static str) -> sqlx::Result<()> {
        sqlx::raw_sql(sql).execute(conn).await.map(drop)
    }
    async fn leak_a_savepoint(conn: &mut SqliteConnection) {
        if let Ok(savepoint) = conn.begin().await {
            std::mem::forget(savepoint);
        }
    }
}

impl Database for Postgres {
    const ENDLESS: &'static str = "select pg_sleep(3600)";
    async fn insert(conn: &mut PgConnection, id: &str) -> sqlx::Result<()> {
        sqlx::query("insert into effect (id) values ($1)").bind(id).execute(conn).await.map(drop)
    }
    async fn run(conn: &mut PgConnection, sql: &'static str) -> sqlx::Result<()> {
        sqlx::raw_sql(sql).execute(conn).await.map(drop)
    }
    async fn leak_a_savepoint(conn: &mut PgConnection) {
        if let Ok(savepoint) = conn.begin().await {
            std::mem::forget(savepoint);
        }
    }
}

struct Act;

impl<S: Database> Handler<S, Task> for Act {
    async fn handle(&self, tx: &mut Tx<'_, S>, task: Task) -> HandlerResult {
        S::insert(tx.conn(), &task.id).await?;
        match task.act.as_str() {
            "fail" => return Err(HandlerError::from_boxed("as asked")),
            "reject" => return Err(HandlerError::reject("as asked")),
            "later" => return Err(HandlerError::retry_after(Duration::from_secs(3600), "as asked")),
            // From the inbox, where it then is.
            "later-abort" if tx.message().is_some_and(|message| message.attempt() == 1) => {
                return Err(HandlerError::retry_after(Duration::from_millis(20), "as asked"));
            }
            "later-abort" => std::process::abort(),
            "panic" => panic!("as asked"),
            "abort" => std::process::abort(),
            "sleep" => tokio::time::sleep(Duration::from_secs(3600)).await,
            "query" => S::run(tx.conn(), S::ENDLESS).await?,
            "hide" => drop(S::run(tx.conn(), "insert into no_such_table values (1)").await),
            "commit" => drop(S::run(tx.conn(), "COMMIT").await),
            "rollback" => drop(S::run(tx.conn(), "ROLLBACK; BEGIN").await),
            "savepoint" => S::leak_a_savepoint(tx.conn()).await,
            _ => {}
        }
        Ok(())
    }
}

async fn work<S: Database>(store: S, file: String, timeout: Duration) -> Result<(), Box<dyn std::error::Error>> {
    let semel = Semel::new(store);
    let setup = Setup { name: "effect.sql".into(), sql: "create table effect (id text not null)".into() };
    semel.migrate(&[setup]).await?;
    let settings = Settings {
        identity: Identity {
            id: Pick::Body("/id".into()),
            kind: Pick::Fixed(Task::KIND.into()),
            key: None,
            ..Identity::default()
        },
        max_batch: 16,
        timeout,
        retry: RetryPlan { immediate: 1, deferred: Vec::new() },
        ..Settings::default()
    };
    let summary =
        Consumer::named("lab", semel).settings(settings).handler::<Task>(Act).run(semel::file::source(file)).await?;
    let semel::Summary { received, processed, duplicates, dead_lettered, deferred, .. } = summary;
    println!(
        "{}",
        serde_json::json!({ "received": received, "processed": processed, "duplicates": duplicates,
            "dead_lettered": dead_lettered, "deferred": deferred })
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let (Some(store), Some(file)) = (words.next(), words.next()) else {
        return Err("usage: lab STORE FILE [MILLISECONDS]".into());
    };
    let timeout = Duration::from_millis(words.next().map_or(Ok(5000), |text| text.parse())?);
    match store.strip_prefix("sqlite:") {
        Some(path) => work(Sqlite::open(path)?, file, timeout).await,
        None => work(Postgres::new(&store)?, file, timeout).await,
    }
}
