//! A handler may be run again, with a fresh copy of what it captured.

use semel::{Consumer, Semel, Sqlite};

#[derive(serde::Serialize, serde::Deserialize)]
struct Paid {
    order_id: i64,
}
impl semel::Message for Paid {
    const KIND: &'static str = "paid";
}

struct Once;

fn consumer(semel: Semel<Sqlite>) -> Consumer<Sqlite> {
    let once = Once;
    Consumer::named("work", semel).on(async move |_, _: Paid| {
        drop(once);
        Ok(())
    })
}

fn main() {}
