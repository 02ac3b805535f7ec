//! A consumer outlives the function that made it.

use semel::{Consumer, Semel, Sqlite};

#[derive(serde::Serialize, serde::Deserialize)]
struct Paid {
    order_id: i64,
}
impl semel::Message for Paid {
    const KIND: &'static str = "paid";
}

fn consumer(semel: Semel<Sqlite>) -> Consumer<Sqlite> {
    let name = String::from("work");
    Consumer::named("work", semel).on(async |_, _: Paid| {
        drop(name.len());
        Ok(())
    })
}

fn main() {}
