//! Retention (laws 24 and 25): on by default, on its own timer, in bounded steps, and never as part of a message's transaction.

use crate::claim::ConsumerNumber;
use crate::lanes::{Lanes, in_time};
use crate::records::Records;
use crate::store::{Store, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// Claims deleted in one step.
pub const SWEEP_ROWS: u32 = 10_000;
/// A step that takes longer is given up, and tried again with the next round.
const STEP_MAX: Duration = Duration::from_secs(120);

/// Sweeps one consumer's old claims until none is left, and answers how many there were.
pub(crate) async fn sweep<S: Store>(
    lanes: &Arc<Lanes<S>>,
    consumer: ConsumerNumber,
    window: Duration,
) -> Result<u64, StoreError> {
    let mut deleted = 0;
    loop {
        let mut lane = lanes.guest().await?;
        let step = in_time(STEP_MAX, lane.sweep(consumer, window, SWEEP_ROWS)).await?;
        lane.done();
        deleted += step.deleted;
        if !step.more {
            return Ok(deleted);
        }
        // Between two steps others get their turn: on SQLite there is one lane for all.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Sweeps again and again, often enough that the table stays near its window's size. An error is left to the next round: the lanes notice
/// an outage by themselves.
pub(crate) async fn keep<S: Store>(lanes: &Arc<Lanes<S>>, consumer: ConsumerNumber, window: Duration) {
    let every = (window / 100).clamp(Duration::from_secs(1), Duration::from_secs(600));
    loop {
        tokio::time::sleep(every).await;
        if let Err(error) = sweep(lanes, consumer, window).await {
            tracing::debug!("a sweep failed and will be tried again: {error}");
        }
    }
}
