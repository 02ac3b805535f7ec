//! Every shape of a handler.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel::{Consumer, Handler, HandlerError, HandlerResult, Incoming, Message, RawHandler, Semel, Sqlite, Store, Tx};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct OrderPlaced {
    order_id: i64,
}
impl Message for OrderPlaced {
    const KIND: &'static str = "order.placed";
}

#[derive(Serialize, Deserialize)]
struct OrderPaid {
    order_id: i64,
}
impl Message for OrderPaid {
    const KIND: &'static str = "order.paid";
}

/// An async function, with a helper, a nested transaction, and the constructors of its errors.
async fn ship(tx: &mut Tx<'_, Sqlite>, paid: OrderPaid) -> HandlerResult {
    use sqlx::Connection;
    insert(tx.conn(), paid.order_id).await?;
    let mut savepoint = tx.conn().begin().await?;
    insert(&mut savepoint, paid.order_id).await?;
    savepoint.commit().await?;
    let attempt = tx.message().map_or(0, Incoming::attempt);
    match (paid.order_id, attempt) {
        (0, _) => Err(HandlerError::reject("there is no order 0")),
        (1, 1) => Err(HandlerError::retry_after(Duration::from_secs(60), "not yet")),
        (2, _) => Err(HandlerError::from_boxed("a text, an anyhow error, a boxed one")),
        (number, _) => {
            let _: i64 = number.to_string().parse()?;
            Ok(())
        }
    }
}

async fn insert(conn: &mut sqlx::SqliteConnection, order_id: i64) -> sqlx::Result<()> {
    sqlx::query("insert into shipments (order_id) values (?)").bind(order_id).execute(conn).await.map(drop)
}

/// An async function for any store.
async fn count<S: Store>(_: &mut Tx<'_, S>, _: OrderPlaced) -> HandlerResult {
    Ok(())
}

/// A struct.
struct Prices(HashMap<i64, i64>);
impl<S: Store> Handler<S, OrderPlaced> for Prices {
    async fn handle(&self, _: &mut Tx<'_, S>, order: OrderPlaced) -> HandlerResult {
        tokio::time::sleep(Duration::ZERO).await;
        self.0.get(&order.order_id).map(drop).ok_or_else(|| HandlerError::reject("no price"))
    }
}

/// A struct for many at once.
struct Bulk;
impl<S: Store> Handler<S, Vec<OrderPaid>> for Bulk {
    async fn handle(&self, _: &mut Tx<'_, S>, _: Vec<OrderPaid>) -> HandlerResult {
        Ok(())
    }
}

/// Messages as they came.
struct Archive;
impl RawHandler<Sqlite> for Archive {
    async fn handle(&self, tx: &mut Tx<'_, Sqlite>, run: &[&Incoming]) -> HandlerResult {
        for message in run {
            sqlx::query("insert into archive (id, body) values (?, ?)")
                .bind(message.id())
                .bind(message.body())
                .execute(tx.conn())
                .await?;
        }
        Ok(())
    }
}

fn consumer(semel: Semel<Sqlite>) -> Consumer<Sqlite> {
    let prices = Arc::new(HashMap::from([(1, 100)]));
    let seen = Arc::new(AtomicU64::new(0));
    let counted = seen.clone();
    Consumer::named("shipping", semel)
        .on(ship)
        .on(count)
        // A closure that captures, moves what it captured, and needs no annotation of `tx`.
        .on(async move |tx, order: OrderPlaced| {
            if prices.contains_key(&order.order_id) {
                insert(tx.conn(), order.order_id).await?;
            }
            drop(prices);
            Ok(())
        })
        .on_batch(async move |tx, orders: Vec<OrderPlaced>| {
            for order in &orders {
                insert(tx.conn(), order.order_id).await?;
            }
            counted.fetch_add(orders.len() as u64, Ordering::Relaxed);
            Ok(())
        })
        .handler::<OrderPlaced>(Prices(HashMap::new()))
        .raw(Some("order.cancelled"), Archive)
        .raw(None, Archive)
}

#[tokio::test]
async fn they_all_make_a_consumer() {
    // Nothing is opened before it is run.
    let consumer = consumer(Semel::new(Sqlite::open("never-made.db").expect("a path")));
    assert_eq!(consumer.progress().summary("shipping", Duration::ZERO).received, 0);
    fn handles<H: Handler<Sqlite, Vec<OrderPaid>>>(_: H) {}
    handles(Bulk);
}
