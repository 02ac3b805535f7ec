//! The summary of a run.

use std::fmt;

use super::{fields, objects};
use crate::program::Finished;

/// What a run counted. `received` is not kept: that it is the sum of these was checked when they were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Work done.
    pub processed: u64,
    /// Known before.
    pub duplicates: u64,
    /// Known with other content.
    pub conflicts: u64,
    /// Set aside.
    pub dead_lettered: u64,
    /// Waiting.
    pub deferred: u64,
    /// Ignored.
    pub ignored: u64,
}

/// The documented fields, sorted.
const FIELDS: [&str; 9] =
    ["conflicts", "consumer", "dead_lettered", "deferred", "duplicates", "ignored", "processed", "received", "seconds"];

impl Counts {
    /// The only line of a `run --json`.
    ///
    /// # Panics
    ///
    /// If there is more than that line, if it has other fields than the documented ones, or if its sum is wrong.
    pub fn of(finished: &Finished) -> Self {
        let all = Self::all_of(finished);
        assert_eq!(all.len(), 1, "one consumer: {finished}");
        all[0].1
    }

    /// The lines of a `run --json` with several consumers, with their names.
    ///
    /// # Panics
    ///
    /// As [`of`](Self::of).
    pub fn all_of(finished: &Finished) -> Vec<(String, Self)> {
        let read = |object: &serde_json::Value| {
            assert_eq!(fields(object), FIELDS, "{finished}");
            assert!(object["seconds"].as_f64().is_some_and(|seconds| (0.0..60.0).contains(&seconds)), "{finished}");
            let count = |name: &str| object[name].as_u64().unwrap_or_else(|| panic!("{name}: {finished}"));
            let counts = Self {
                processed: count("processed"),
                duplicates: count("duplicates"),
                conflicts: count("conflicts"),
                dead_lettered: count("dead_lettered"),
                deferred: count("deferred"),
                ignored: count("ignored"),
            };
            assert_eq!(count("received"), counts.received(), "the sum of the six: {finished}");
            (object["consumer"].as_str().expect("a name").to_owned(), counts)
        };
        objects(&finished.stdout).iter().map(read).collect()
    }

    /// The sum.
    pub fn received(&self) -> u64 {
        let Self { processed, duplicates, conflicts, dead_lettered, deferred, ignored } = self;
        processed + duplicates + conflicts + dead_lettered + deferred + ignored
    }

    /// Only processed ones.
    pub fn processed(processed: u64) -> Self {
        Self { processed, ..Self::default() }
    }

    /// Only duplicates.
    pub fn duplicates(duplicates: u64) -> Self {
        Self { duplicates, ..Self::default() }
    }

    /// Only dead letters.
    pub fn dead(dead_lettered: u64) -> Self {
        Self { dead_lettered, ..Self::default() }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self:?}")
    }
}
