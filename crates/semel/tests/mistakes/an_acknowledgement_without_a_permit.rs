//! Nothing is acknowledged that was not processed, known, or set aside.

use semel::{Delivery, Settle};

async fn acknowledge<K: Settle>(delivery: Delivery<K>) {
    let _ = delivery.ack().await;
}

fn main() {}
