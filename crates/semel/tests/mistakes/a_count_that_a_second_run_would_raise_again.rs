//! The work of one call may run again after a deadlock: what it changes outside of the store would change twice.

use semel::{Envelope, Semel, Sqlite};

async fn work(semel: &Semel<Sqlite>, message: &Envelope) {
    let mut done = 0;
    let _ = semel
        .process("work", message, async |_| {
            done += 1;
            Ok(())
        })
        .await;
}

fn main() {}
