//! One permit, one acknowledgement.

use semel::{AckPermit, Delivery, Settle};

async fn acknowledge<K: Settle>(one: Delivery<K>, two: Delivery<K>, permit: AckPermit) {
    let _ = one.ack(permit).await;
    let _ = two.ack(permit).await;
}

fn main() {}
