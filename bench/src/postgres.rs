//! PostgreSQL: semel against what an expert would write with the same crate.

use crate::source::Memory;
use crate::stats::{Compared, compare, timed};
use semel::{Consumer, Envelope, FingerprintOf, HandlerResult, Message, Postgres, RetryPlan, Semel, Settings, Tx};
use serde::{Deserialize, Serialize};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const LANES: usize = 16;
const BATCH: usize = 100;

#[derive(Serialize, Deserialize, Clone)]
pub(crate) struct Order {
    pub(crate) id: String,
    pub(crate) account: i64,
    pub(crate) amount: i64,
}
impl Message for Order {
    const KIND: &'static str = "order.placed";
}

/// New ids in every run, so that tables grow alike on both sides.
pub(crate) fn orders(count: usize) -> Arc<Vec<Envelope>> {
    static RUN: AtomicUsize = AtomicUsize::new(0);
    let run = RUN.fetch_add(1, Ordering::Relaxed);
    let order = |at: usize| {
        let id = format!("{run:04}-{at:010}-5c1f-4d2e-9a51-0242ac120002");
        Envelope::of(id.clone(), &Order { id, account: (at % 50) as i64, amount: 450 }).expect("serialises")
    };
    Arc::new((0..count).map(order).collect())
}

pub(crate) struct Bench {
    options: PgConnectOptions,
    url: String,
    semel: Semel<Postgres>,
    number: i32,
}

impl Bench {
    pub(crate) async fn new(url: &str) -> Self {
        let options: PgConnectOptions = url.parse().expect("a PostgreSQL URL");
        let mut connection = connect(&options).await;
        sqlx::raw_sql(
            "drop schema if exists semel cascade; drop table if exists orders, account, hand_claim;
             create table orders (id text not null, account bigint not null, amount bigint not null);
             create table account (account bigint primary key, balance bigint not null);
             insert into account select n, 0 from generate_series(0, 49) n;
             create table hand_claim (consumer int not null, message_id text collate \"C\" not null, fingerprint bytea,
               claimed_at timestamptz not null default clock_timestamp(), primary key (consumer, message_id))",
        )
        .execute(&mut connection)
        .await
        .expect("tables");
        let semel = Semel::new(Postgres::new(url).expect("a URL").lanes_max(LANES + 2));
        semel.migrate(&[]).await.expect("migrated");
        let number = semel.register("bench", None).await.expect("registered").0;
        Bench { options, url: url.to_owned(), semel, number }
    }

    fn consumer(&self, max_batch: usize) -> Consumer<Postgres> {
        // Copies of one file never fail here; a failure must not be hidden behind retries.
        let settings = Settings {
            lanes: LANES,
            max_batch,
            retry: RetryPlan::never(),
            sweep: false,
            prefetch: LANES * 100,
            ..Settings::default()
        };
        Consumer::named("bench", self.semel.clone()).settings(settings)
    }

    async fn one_row(&self, messages: &Arc<Vec<Envelope>>, max_batch: usize) -> Duration {
        async fn place(tx: &mut Tx<'_, Postgres>, order: Order) -> HandlerResult {
            sqlx::query("insert into orders (id, account, amount) values ($1, $2, $3)")
                .bind(order.id)
                .bind(order.account)
                .bind(order.amount)
                .execute(tx.conn())
                .await?;
            Ok(())
        }
        self.run(self.consumer(max_batch).on(place), messages).await
    }

    async fn whole_batches(&self, messages: &Arc<Vec<Envelope>>) -> Duration {
        async fn place(tx: &mut Tx<'_, Postgres>, orders: Vec<Order>) -> HandlerResult {
            let (mut ids, mut accounts, mut amounts) = (Vec::new(), Vec::new(), Vec::new());
            for Order { id, account, amount } in orders {
                ids.push(id);
                accounts.push(account);
                amounts.push(amount);
            }
            sqlx::query(
                "insert into orders (id, account, amount) select * from unnest($1::text[], $2::int8[], $3::int8[])",
            )
            .bind(ids)
            .bind(accounts)
            .bind(amounts)
            .execute(tx.conn())
            .await?;
            Ok(())
        }
        self.run(self.consumer(BATCH).on_batch(place), messages).await
    }

    async fn transfers(&self, messages: &Arc<Vec<Envelope>>) -> Duration {
        async fn transfer(tx: &mut Tx<'_, Postgres>, order: Order) -> HandlerResult {
            sqlx::query("update account set balance = balance + $2 where account = $1")
                .bind(order.account)
                .bind(order.amount)
                .execute(tx.conn())
                .await?;
            Ok(())
        }
        self.run(self.consumer(BATCH).on(transfer), messages).await
    }

    async fn run(&self, consumer: Consumer<Postgres>, messages: &Arc<Vec<Envelope>>) -> Duration {
        let source = Memory::new(messages);
        let acknowledged = source.acknowledged.clone();
        let started = std::time::Instant::now();
        let summary = consumer.run(source).await.expect("the run ends well");
        let took = started.elapsed();
        assert_eq!(acknowledged.load(Ordering::Relaxed), messages.len());
        assert_eq!(summary.processed + summary.duplicates, messages.len() as u64, "{summary:?}");
        took
    }

    /// Sixteen tasks with a connection each take messages from a shared counter.
    async fn by_hand<F>(&self, messages: &Arc<Vec<Envelope>>, stride: usize, work: F) -> Duration
    where
        F: for<'c> Fn(&'c mut PgConnection, &'c [Envelope]) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + 'c>>
            + Clone
            + Send
            + 'static,
    {
        let mut connections = Vec::new();
        for _ in 0..LANES {
            connections.push(connect(&self.options).await);
        }
        let next = Arc::new(AtomicUsize::new(0));
        timed(async {
            let tasks: Vec<_> = connections
                .into_iter()
                .map(|mut connection| {
                    let (messages, next, work) = (messages.clone(), next.clone(), work.clone());
                    tokio::spawn(async move {
                        loop {
                            let at = next.fetch_add(stride, Ordering::Relaxed);
                            if at >= messages.len() {
                                return;
                            }
                            work(&mut connection, &messages[at..(at + stride).min(messages.len())]).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("no panic");
            }
        })
        .await
    }

    /// BEGIN, claim, insert, COMMIT.
    async fn hand_one(&self, messages: &Arc<Vec<Envelope>>) -> Duration {
        self.by_hand(messages, 1, |connection, batch| Box::pin(hand_one(connection, &batch[0], INSERT_ORDER))).await
    }

    async fn hand_transfer(&self, messages: &Arc<Vec<Envelope>>) -> Duration {
        self.by_hand(messages, 1, |connection, batch| Box::pin(hand_one(connection, &batch[0], UPDATE_ACCOUNT))).await
    }

    async fn hand_hundred(&self, messages: &Arc<Vec<Envelope>>) -> Duration {
        self.by_hand(messages, BATCH, |connection, batch| Box::pin(hand_batch(connection, batch))).await
    }

    /// One statement that finds out which ids are known, and whether their content is the same.
    async fn hand_known(&self, messages: &Arc<Vec<Envelope>>) -> Duration {
        let number = self.number;
        self.by_hand(messages, BATCH, move |connection, batch| Box::pin(hand_known(connection, number, batch))).await
    }

    /// All comparisons on this database.
    pub(crate) async fn compare(&self, rounds: usize, size: usize, one_goal: f64) -> Vec<Compared> {
        let mut all = Vec::new();
        let (few, many) = (size, size * 10);
        // Warm: connections, plans, files.
        self.one_row(&orders(1000), 1).await;
        self.hand_one(&orders(1000)).await;
        all.push(
            compare(
                "one message per transaction",
                one_goal,
                rounds,
                (few, few),
                || async { self.one_row(&orders(few), 1).await },
                || async { self.hand_one(&orders(few)).await },
            )
            .await,
        );
        all.push(
            compare(
                "adaptive batch, one-row handler / one by one",
                3.0,
                rounds,
                (many, few),
                || async { self.one_row(&orders(many), BATCH).await },
                || async { self.hand_one(&orders(few)).await },
            )
            .await,
        );
        all.push(
            compare(
                "batch handler / 100 per commit",
                0.6,
                rounds,
                (many, many),
                || async { self.whole_batches(&orders(many)).await },
                || async { self.hand_hundred(&orders(many)).await },
            )
            .await,
        );
        let known = orders(many);
        self.whole_batches(&known).await;
        all.push(
            compare(
                "known duplicates / statement with fingerprint",
                0.8,
                rounds,
                (many, many),
                || async { self.whole_batches(&known).await },
                || async { self.hand_known(&known).await },
            )
            .await,
        );
        all.push(
            compare(
                "16 lanes on 50 shared accounts / one by one",
                0.8,
                rounds,
                (few * 2, few * 2),
                || async { self.transfers(&orders(few * 2)).await },
                || async { self.hand_transfer(&orders(few * 2)).await },
            )
            .await,
        );
        all.push(crate::program::against_hand(self, rounds, many).await);
        all
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) async fn hand_json(&self, lines: &Arc<Vec<Envelope>>) -> Duration {
        self.by_hand(lines, BATCH, |connection, batch| Box::pin(hand_json(connection, batch))).await
    }
}

async fn connect(options: &PgConnectOptions) -> PgConnection {
    options.clone().disable_statement_logging().connect().await.expect("PostgreSQL answers")
}

const INSERT_ORDER: &str = "insert into orders (id, account, amount) values ($1, $2, $3)";
const UPDATE_ACCOUNT: &str = "update account set balance = balance + $3 where account = $2 and $1 <> ''";

async fn hand_one(connection: &mut PgConnection, message: &Envelope, work: &'static str) {
    let order: Order = serde_json::from_slice(&message.body).expect("an order");
    let id = message.id.as_deref().expect("an id");
    let print = FingerprintOf::Body.of(message.kind.as_deref(), &message.body, None);
    let mut tx = connection.begin().await.expect("BEGIN");
    let claimed = sqlx::query(
        "insert into hand_claim (consumer, message_id, fingerprint) values (1, $1, $2) on conflict do nothing",
    )
    .bind(id)
    .bind(&print.digest[..])
    .execute(&mut *tx)
    .await
    .expect("claim")
    .rows_affected();
    if claimed == 1 {
        sqlx::query(work).bind(&order.id).bind(order.account).bind(order.amount).execute(&mut *tx).await.expect("work");
    }
    tx.commit().await.expect("COMMIT");
}

async fn hand_batch(connection: &mut PgConnection, batch: &[Envelope]) {
    let orders: Vec<Order> =
        batch.iter().map(|message| serde_json::from_slice(&message.body).expect("an order")).collect();
    let prints: Vec<Vec<u8>> = batch
        .iter()
        .map(|message| FingerprintOf::Body.of(message.kind.as_deref(), &message.body, None).digest.to_vec())
        .collect();
    let ids: Vec<&str> = orders.iter().map(|order| &*order.id).collect();
    let accounts: Vec<i64> = orders.iter().map(|order| order.account).collect();
    let amounts: Vec<i64> = orders.iter().map(|order| order.amount).collect();
    sqlx::query(
        "with input as (select * from unnest($1::text[], $2::bytea[], $3::int8[], $4::int8[]) as i (id, print, account, amount)),
         claimed as (insert into hand_claim (consumer, message_id, fingerprint) select 1, id, print from input order by id
           on conflict do nothing returning message_id)
         insert into orders (id, account, amount) select id, account, amount from input join claimed on message_id = id",
    )
    .bind(ids)
    .bind(prints)
    .bind(accounts)
    .bind(amounts)
    .execute(connection)
    .await
    .expect("a batch");
}

async fn hand_json(connection: &mut PgConnection, batch: &[Envelope]) {
    let prints: Vec<Vec<u8>> =
        batch.iter().map(|line| FingerprintOf::Body.of(None, &line.body, None).digest.to_vec()).collect();
    let bodies: Vec<&str> = batch.iter().map(|line| std::str::from_utf8(&line.body).expect("UTF-8")).collect();
    sqlx::query(
        "with input as (select body::jsonb as body, print from unnest($1::text[], $2::bytea[]) as i (body, print)),
         claimed as (insert into hand_claim (consumer, message_id, fingerprint) select 1, body->>'id', print from input order by 2
           on conflict do nothing returning message_id)
         insert into orders (id, account, amount)
         select body->>'id', cast(body->>'account' as bigint), cast(body->>'amount' as bigint) from input join claimed on message_id = body->>'id'",
    )
    .bind(bodies)
    .bind(prints)
    .execute(connection)
    .await
    .expect("a batch");
}

async fn hand_known(connection: &mut PgConnection, number: i32, batch: &[Envelope]) {
    let ids: Vec<&str> = batch.iter().map(|message| message.id.as_deref().expect("an id")).collect();
    let prints: HashMap<&str, [u8; 16]> = batch
        .iter()
        .map(|message| {
            let print = FingerprintOf::Body.of(message.kind.as_deref(), &message.body, None);
            (message.id.as_deref().expect("an id"), print.digest)
        })
        .collect();
    let known: Vec<(String, Vec<u8>)> =
        sqlx::query_as("select message_id, fingerprint from semel.claim where consumer = $1 and message_id = any($2)")
            .bind(number)
            .bind(&ids)
            .fetch_all(connection)
            .await
            .expect("known ids");
    let same = known.iter().filter(|(id, print)| prints.get(&**id).is_some_and(|own| own[..] == print[..])).count();
    assert_eq!(same, batch.len());
}
