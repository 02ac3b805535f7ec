//! SQLite: batches against a hand-written loop of the same batch size.

use crate::postgres::{Order, orders};
use crate::source::Memory;
use crate::stats::{Compared, compare, timed};
use semel::{Consumer, Envelope, FingerprintOf, HandlerResult, RetryPlan, Semel, Settings, Sqlite, Tx};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const BATCH: usize = 100;
const INSERT: &str = "insert into orders (id, account, amount) values (?, ?, ?)";

pub(crate) async fn batches(directory: &Path, rounds: usize, size: usize) -> Compared {
    let (ours, theirs) = (directory.join("semel.db"), directory.join("hand.db"));
    for file in [&ours, &theirs] {
        let mut connection = open(file).await;
        sqlx::raw_sql(
            "create table orders (id text not null, account integer not null, amount integer not null);
             create table hand_claim (consumer integer not null, message_id text not null, fingerprint blob, claimed_at integer not null,
               primary key (consumer, message_id)) without rowid",
        )
        .execute(&mut connection)
        .await
        .expect("tables");
    }
    let semel = Semel::new(Sqlite::open(&ours).expect("a path"));
    semel.migrate(&[]).await.expect("migrated");
    let run = || async { with_semel(&semel, &orders(size)).await };
    let loops = || async { by_hand(&theirs, &orders(size)).await };
    compare("SQLite: batches / loop of the same size", 0.6, rounds, (size, size), run, loops).await
}

async fn with_semel(semel: &Semel<Sqlite>, messages: &Arc<Vec<Envelope>>) -> Duration {
    async fn place(tx: &mut Tx<'_, Sqlite>, order: Order) -> HandlerResult {
        sqlx::query(INSERT).bind(order.id).bind(order.account).bind(order.amount).execute(tx.conn()).await?;
        Ok(())
    }
    let settings = Settings { max_batch: BATCH, retry: RetryPlan::never(), sweep: false, ..Settings::default() };
    let consumer = Consumer::named("bench", semel.clone()).settings(settings).on(place);
    timed(async {
        let summary = consumer.run(Memory::new(messages)).await.expect("the run ends well");
        assert_eq!(summary.processed, messages.len() as u64);
    })
    .await
}

async fn by_hand(file: &Path, messages: &Arc<Vec<Envelope>>) -> Duration {
    let mut connection = open(file).await;
    timed(async {
        for batch in messages.chunks(BATCH) {
            let mut tx = connection.begin_with("BEGIN IMMEDIATE").await.expect("BEGIN");
            for message in batch {
                let order: Order = serde_json::from_slice(&message.body).expect("an order");
                let print = FingerprintOf::Body.of(message.kind.as_deref(), &message.body, None);
                let claim = "insert into hand_claim (consumer, message_id, fingerprint, claimed_at) values (1, ?, ?, unixepoch()) on conflict do nothing";
                let claimed = sqlx::query(claim).bind(&message.id).bind(&print.digest[..]).execute(&mut *tx).await.expect("claim");
                if claimed.rows_affected() == 1 {
                    sqlx::query(INSERT).bind(order.id).bind(order.account).bind(order.amount).execute(&mut *tx).await.expect("work");
                }
            }
            tx.commit().await.expect("COMMIT");
        }
    })
    .await
}

async fn open(file: &Path) -> SqliteConnection {
    SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .disable_statement_logging()
        .connect()
        .await
        .expect("SQLite opens")
}

pub(crate) async fn execute(file: &Path, sql: &'static str) {
    sqlx::raw_sql(sql).execute(&mut open(file).await).await.expect("SQL runs");
}
