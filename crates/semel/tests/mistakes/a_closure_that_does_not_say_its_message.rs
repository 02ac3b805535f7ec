//! The message's type says which kind is meant.

use semel::{Consumer, Semel, Sqlite};

fn consumer(semel: Semel<Sqlite>) -> Consumer<Sqlite> {
    Consumer::named("work", semel).on(async |_, _| Ok(()))
}

fn main() {}
