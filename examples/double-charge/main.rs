//! Who charges twice?
//!
//! Two handlers take the same payment: one checks whether it was done, then charges, then notes it; the other claims the message id first, in
//! the transaction of the charge. Both are killed (`abort`, as `kill -9` would) between the work and the acknowledgement, and the broker
//! delivers again. Then both get two copies at the same moment.
//!
//! `cargo run --example double-charge`

#![allow(clippy::print_stdout, reason = "an example that tells a story on the terminal")]

use semel::{Consumer, Envelope, HandlerResult, Identity, Message, Pick, Semel, Sqlite, Tx};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Serialize, Deserialize, Clone)]
struct Pay {
    payment_id: String,
    cents: i64,
}

impl Message for Pay {
    const KIND: &'static str = "payment.requested";
}

#[tokio::main]
async fn main() -> Result {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["deliver", handler, file, crash] => deliver(handler, Path::new(file), crash == "crash").await,
        _ => compare().await,
    }
}

/// Runs both handlers through the same two accidents, and prints the tills.
async fn compare() -> Result {
    println!("one payment of 4.50, delivered at least once\n");
    println!("{:<44} {:>14} {:>14}", "", "check, then act", "claim first");
    let killed = [after_kill("naive").await?, after_kill("claim").await?];
    print_row("killed between work and ack, delivered again", killed);
    let twins = [after_twins("naive").await?, after_twins("claim").await?];
    print_row("two copies at the same moment", twins);
    println!();
    for (who, times) in [("check, then act", killed[0].max(twins[0])), ("claim first", killed[1].max(twins[1]))] {
        println!("{who}: {}", if times > 1 { "charged twice" } else { "charged once" });
    }
    Ok(())
}

fn print_row(what: &str, charges: [i64; 2]) {
    let times = charges.map(|n| format!("{n} charge{}", if n == 1 { "" } else { "s" }));
    println!("{what:<44} {:>14} {:>14}", times[0], times[1]);
}

async fn after_kill(handler: &str) -> Result<i64> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("till.db");
    prepare(&file).await?;
    for crash in ["crash", "no-crash"] {
        let status = Command::new(std::env::current_exe()?)
            .args(["deliver", handler])
            .arg(&file)
            .arg(crash)
            .stderr(std::process::Stdio::null())
            .status()?;
        assert_eq!(status.success(), crash == "no-crash", "the first process must die, the second must not");
    }
    charges(&file).await
}

async fn after_twins(handler: &str) -> Result<i64> {
    let directory = tempfile::tempdir()?;
    let file = directory.path().join("till.db");
    prepare(&file).await?;
    // Two processes of the service get a copy each, as after a rebalance.
    let (a, b) = tokio::join!(deliver(handler, &file, false), deliver(handler, &file, false));
    a.and(b)?;
    charges(&file).await
}

/// One process of the service, with one delivery in hand.
async fn deliver(handler: &str, file: &Path, crash: bool) -> Result {
    let pay = Pay { payment_id: "pay-1".into(), cents: 450 };
    match handler {
        "naive" => check_then_act(file, &pay).await?,
        _ => claim_first(file, &pay).await?,
    }
    if crash {
        // The acknowledgement would be sent now.
        std::process::abort();
    }
    Ok(())
}

/// What is written everywhere: look whether it was done; if not, do it; note that it was done.
async fn check_then_act(file: &Path, pay: &Pay) -> Result {
    let mut till = open(file).await?;
    let done: i64 = sqlx::query_scalar("select count(*) from done where payment_id = ?")
        .bind(&pay.payment_id)
        .fetch_one(&mut till)
        .await?;
    if done == 0 {
        // The gap: a twin looks now and sees nothing either.
        tokio::time::sleep(Duration::from_millis(50)).await;
        charge(&mut till, pay).await?;
        if std::env::args().next_back().as_deref() == Some("crash") {
            std::process::abort();
        }
        sqlx::query("insert or ignore into done (payment_id) values (?)")
            .bind(&pay.payment_id)
            .execute(&mut till)
            .await?;
    }
    Ok(())
}

/// The same with semel: the claim is the first statement of the transaction that charges.
async fn claim_first(file: &Path, pay: &Pay) -> Result {
    let semel = Semel::new(Sqlite::open(file)?);
    semel.migrate(&[]).await?;
    let message = Envelope::of(&pay.payment_id, pay)?;
    let permit = semel
        .process("till", &message, async |tx| {
            charge(tx.conn(), pay).await?;
            Ok(())
        })
        .await?;
    // `permit` exists only after COMMIT: without it there is no acknowledgement.
    drop(permit);
    Ok(())
}

async fn charge(till: &mut SqliteConnection, pay: &Pay) -> sqlx::Result<()> {
    sqlx::query("insert into charge (payment_id, cents) values (?, ?)")
        .bind(&pay.payment_id)
        .bind(pay.cents)
        .execute(till)
        .await?;
    Ok(())
}

async fn open(file: &Path) -> sqlx::Result<SqliteConnection> {
    let options =
        SqliteConnectOptions::new().filename(file).create_if_missing(true).journal_mode(SqliteJournalMode::Wal);
    options.connect().await
}

async fn prepare(file: &Path) -> Result {
    let mut till = open(file).await?;
    sqlx::raw_sql(
        "create table charge (payment_id text, cents integer); create table done (payment_id text primary key)",
    )
    .execute(&mut till)
    .await?;
    till.close().await?;
    Ok(())
}

async fn charges(file: &Path) -> Result<i64> {
    let mut till = open(file).await?;
    Ok(sqlx::query_scalar("select count(*) from charge").fetch_one(&mut till).await?)
}

/// How the same handler looks in a consumer with a file of messages as its source.
#[allow(dead_code)]
async fn as_a_consumer(semel: Semel<Sqlite>) -> Result {
    async fn pay(tx: &mut Tx<'_, Sqlite>, pay: Pay) -> HandlerResult {
        charge(tx.conn(), &pay).await?;
        Ok(())
    }
    let identity =
        Identity { id: Pick::Body("/payment_id".into()), kind: Pick::Fixed(Pay::KIND.into()), ..Identity::default() };
    Consumer::named("till", semel).identity(identity).on(pay).run(semel::file::source("payments.jsonl")).await?;
    Ok(())
}
