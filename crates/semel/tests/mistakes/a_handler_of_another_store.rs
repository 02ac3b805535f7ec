//! The handler is for PostgreSQL, the consumer on SQLite.

use semel::{Consumer, HandlerResult, Postgres, Semel, Sqlite, Tx};

#[derive(serde::Serialize, serde::Deserialize)]
struct Paid {
    order_id: i64,
}
impl semel::Message for Paid {
    const KIND: &'static str = "paid";
}

async fn handle(_: &mut Tx<'_, Postgres>, _: Paid) -> HandlerResult {
    Ok(())
}

fn consumer(semel: Semel<Sqlite>) -> Consumer<Sqlite> {
    Consumer::named("work", semel).on(handle)
}

fn main() {}
