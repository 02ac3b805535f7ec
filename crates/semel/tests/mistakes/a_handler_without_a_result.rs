//! A handler says whether it succeeded.

use semel::{Consumer, Semel, Sqlite, Tx};

#[derive(serde::Serialize, serde::Deserialize)]
struct Paid {
    order_id: i64,
}
impl semel::Message for Paid {
    const KIND: &'static str = "paid";
}

async fn handle(_: &mut Tx<'_, Sqlite>, _: Paid) {}

fn consumer(semel: Semel<Sqlite>) -> Consumer<Sqlite> {
    Consumer::named("work", semel).on(handle)
}

fn main() {}
