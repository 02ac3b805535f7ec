//! What was processed must be acknowledged, or it comes again.
#![deny(unused_must_use)]

use semel::{Envelope, ProcessError, Semel, Sqlite};

async fn work(semel: &Semel<Sqlite>, message: &Envelope) -> Result<(), ProcessError> {
    semel.process("work", message, async |_| Ok(())).await?;
    Ok(())
}

fn main() {}
