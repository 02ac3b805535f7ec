//! The work of one call may run again after a deadlock: what it changes outside of the store would change twice.

use semel::{Envelope, Semel, Sqlite};

struct Done(u64);

impl Done {
    fn raise(&mut self) {
        self.0 += 1;
    }
}

async fn work(semel: &Semel<Sqlite>, message: &Envelope) {
    let mut done = Done(0);
    let _ = semel
        .process("work", message, async |_| {
            done.raise();
            Ok(())
        })
        .await;
}

fn main() {}
