//! A name does not say which broker.

use semel::{Consumer, Sqlite};

async fn run(consumer: Consumer<Sqlite>) {
    let _ = consumer.run("orders").await;
}

fn main() {}
