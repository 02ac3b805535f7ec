//! `retry`: how often and when a failing message is tried again.

use std::time::Duration;

use super::duration::{DURATION_MAX, duration};
use super::tree::{Node, Table};

/// Retries of either kind are not more.
const RETRIES_MAX: usize = 100;

/// The plan for a message whose handler fails: the first try, `immediate` more in place, then one after each of
/// `deferred`, then a dead letter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Retry {
    /// Tries in place after the first. 3 unless the file says otherwise.
    pub(crate) immediate: u32,
    /// How long to wait before each later try. 10 s, 1 min and 10 min unless the file says otherwise.
    pub(crate) deferred: Vec<Duration>,
}

impl Default for Retry {
    fn default() -> Self {
        Self { immediate: 3, deferred: [10, 60, 600].map(Duration::from_secs).to_vec() }
    }
}

const EXAMPLE: &str = "{ immediate = 3, deferred = [\"10s\", \"1m\", \"10m\"] }";

impl Retry {
    pub(super) fn parse(node: &Node<'_>) -> Option<Self> {
        let table = node.table(&format!("a table such as {EXAMPLE}"))?;
        table.refuse_unknown(&["immediate", "deferred"]);
        let default = Self::default();
        let immediate = table.read("immediate", |node| node.integer(0, RETRIES_MAX as i64, 3));
        let deferred = if table.has("deferred") { deferred(&table)? } else { default.deferred };
        Some(Self { immediate: immediate.map_or(default.immediate, |number| number as u32), deferred })
    }
}

fn deferred(table: &Table<'_>) -> Option<Vec<Duration>> {
    let node = table.node("deferred")?;
    let Some(items) = node.items() else {
        node.fail(node.mismatch("a list of durations such as [\"10s\", \"1m\", \"10m\"], or [] for none"));
        return None;
    };
    if items.len() > RETRIES_MAX {
        node.fail(format!(
            "expected at most {RETRIES_MAX} durations, such as [\"10s\", \"1m\", \"10m\"], found {}",
            items.len()
        ));
        return None;
    }
    let delays: Vec<Option<Duration>> =
        items.iter().map(|item| item.read(|item| duration(item, Duration::ZERO, DURATION_MAX, "10s"))).collect();
    delays.into_iter().collect()
}
