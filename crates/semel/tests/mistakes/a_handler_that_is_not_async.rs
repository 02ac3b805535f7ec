//! A handler waits for the database.

use semel::{Consumer, HandlerResult, Semel, Sqlite, Tx};

#[derive(serde::Serialize, serde::Deserialize)]
struct Paid {
    order_id: i64,
}
impl semel::Message for Paid {
    const KIND: &'static str = "paid";
}

fn handle(_: &mut Tx<'_, Sqlite>, _: Paid) -> HandlerResult {
    Ok(())
}

fn consumer(semel: Semel<Sqlite>) -> Consumer<Sqlite> {
    Consumer::named("work", semel).on(handle)
}

fn main() {}
