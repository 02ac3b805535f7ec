//! Lanes run on any thread.

use std::rc::Rc;

use semel::{Consumer, HandlerResult, Semel, Sqlite, Tx};

#[derive(serde::Serialize, serde::Deserialize)]
struct Paid {
    order_id: i64,
}
impl semel::Message for Paid {
    const KIND: &'static str = "paid";
}

async fn handle(_: &mut Tx<'_, Sqlite>, paid: Paid) -> HandlerResult {
    let shared = Rc::new(paid.order_id);
    tokio::task::yield_now().await;
    drop(shared);
    Ok(())
}

fn consumer(semel: Semel<Sqlite>) -> Consumer<Sqlite> {
    Consumer::named("work", semel).on(handle)
}

fn main() {}
