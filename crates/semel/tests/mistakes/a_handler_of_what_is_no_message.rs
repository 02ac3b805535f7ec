//! A message has a kind.

use semel::{Consumer, HandlerResult, Semel, Sqlite, Tx};

#[derive(serde::Serialize, serde::Deserialize)]
struct Plain {
    order_id: i64,
}

async fn handle(_: &mut Tx<'_, Sqlite>, _: Plain) -> HandlerResult {
    Ok(())
}

fn consumer(semel: Semel<Sqlite>) -> Consumer<Sqlite> {
    Consumer::named("work", semel).on(handle)
}

fn main() {}
