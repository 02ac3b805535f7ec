//! The numbers of a consumer: how many, how long, how large.

use std::time::Duration;

use super::duration::{DURATION_MAX, duration};
use super::size::size;
use super::tree::Table;

const LANES: usize = 4;
const LANES_MAX: usize = 256;
const BATCH: usize = 100;
const BATCH_MAX: usize = 10_000;
const BODY_BYTES: u64 = 1 << 20;
const BODY_BYTES_MAX: u64 = 256 << 20;
const CRASHES: usize = 3;
const CRASHES_MAX: usize = 100;
const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Databases count a statement's time limit in 31 bits of milliseconds, which is 24 days.
const TIMEOUT_MAX: Duration = Duration::from_secs(7 * DAY.as_secs());

pub(super) struct Settings {
    pub(super) lanes: usize,
    pub(super) max_batch: usize,
    pub(super) prefetch: usize,
    pub(super) timeout: Duration,
    pub(super) window: Duration,
    pub(super) grace: Duration,
    pub(super) max_body: u64,
    pub(super) max_crashes: u32,
}

impl Settings {
    pub(super) fn read(table: &Table<'_>) -> Self {
        let lanes = number(table, "lanes", LANES, LANES_MAX);
        let max_batch = number(table, "max_batch", BATCH, BATCH_MAX);
        let time = |key: &str, least: Duration, most: Duration, default: Duration, example: &str| {
            table.read(key, |node| duration(node, least, most, example)).unwrap_or(default)
        };
        Self {
            lanes: lanes.unwrap_or(LANES),
            max_batch: max_batch.unwrap_or(BATCH),
            prefetch: prefetch(table, lanes, max_batch),
            timeout: time("timeout", MILLISECOND, TIMEOUT_MAX, 30 * SECOND, "30s"),
            window: time("window", SECOND, DURATION_MAX, 7 * DAY, "7d"),
            grace: time("grace", Duration::ZERO, DURATION_MAX, 30 * SECOND, "30s"),
            max_body: table.read("max_body", |node| size(node, BODY_BYTES_MAX, "1MiB")).unwrap_or(BODY_BYTES),
            max_crashes: number(table, "max_crashes", CRASHES, CRASHES_MAX).unwrap_or(CRASHES) as u32,
        }
    }
}

/// A number from 1 on; `None` where it is wrong.
fn number(table: &Table<'_>, key: &str, default: usize, most: usize) -> Option<usize> {
    match table.node(key) {
        None => Some(default),
        Some(node) => node.read(|node| node.integer(1, most as i64, default as i64)).map(|number| number as usize),
    }
}

/// A lane takes a whole batch out of what was fetched, so that less than a batch would make `max_batch` a lie.
fn prefetch(table: &Table<'_>, lanes: Option<usize>, max_batch: Option<usize>) -> usize {
    let default = lanes.unwrap_or(LANES) * max_batch.unwrap_or(BATCH);
    let most = (LANES_MAX * BATCH_MAX) as i64;
    let given = table.read("prefetch", |node| {
        let given = node.integer(1, most, default as i64)? as usize;
        match max_batch {
            Some(batch) if given < batch => Err(format!(
                "expected at least max_batch, which is {batch}, such as {default} (lanes × max_batch), found {given}"
            )),
            _ => Ok(given),
        }
    });
    given.unwrap_or(default)
}
