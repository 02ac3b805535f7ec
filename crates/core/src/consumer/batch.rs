//! How many messages share a transaction: as many as wait, while it stays short and nobody collides.

use std::time::Duration;

/// A transaction should hold its locks no longer than this.
const TARGET: Duration = Duration::from_millis(20);
/// Transactions without a collision before the ceiling is raised for the first time.
const PATIENCE_MIN: u32 = 64;
const PATIENCE_MAX: u32 = 16 * 1024;

/// The size of the next batch. Doubles while a full batch stays under the target, halves when over it. After a collision over shared rows
/// the ceiling is 1, and it is raised again the more slowly the more often that happens: with 8 lanes on 50 accounts, batches of 10 made
/// 7 messages a second where single messages made 19,900.
#[derive(Debug)]
pub(crate) struct BatchSize {
    now: usize,
    ceiling: usize,
    max: usize,
    calm: u32,
    patience: u32,
}

impl BatchSize {
    pub(crate) fn new(max: usize) -> Self {
        BatchSize { now: 1, ceiling: max, max, calm: 0, patience: PATIENCE_MIN }
    }

    pub(crate) fn now(&self) -> usize {
        self.now
    }

    /// A batch of `length` went through, and took `took` without its commit.
    pub(crate) fn went_through(&mut self, length: usize, took: Duration) {
        self.calm += 1;
        if self.ceiling < self.max && self.calm >= self.patience {
            self.ceiling = (self.ceiling * 2).min(self.max);
            self.calm = 0;
        }
        if took > TARGET {
            self.now = (self.now / 2).max(1);
        } else if length >= self.now {
            self.now = (self.now * 2).min(self.ceiling);
        }
    }

    /// A batch met somebody else's locks.
    pub(crate) fn collided(&mut self) {
        if self.now > 1 {
            self.patience = (self.patience * 2).min(PATIENCE_MAX);
        }
        (self.now, self.ceiling, self.calm) = (1, 1, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    #[test]
    fn grows_while_short_and_full_and_shrinks_when_long() {
        let mut size = BatchSize::new(100);
        for expected in [2, 4, 8, 16, 32, 64, 100, 100] {
            size.went_through(size.now(), SHORT);
            assert_eq!(size.now(), expected);
        }
        size.went_through(3, SHORT);
        assert_eq!(size.now(), 100, "a batch that was not full says nothing");
        size.went_through(100, Duration::from_millis(50));
        assert_eq!(size.now(), 50);
    }

    #[test]
    fn after_a_collision_it_is_slow_to_trust_again() {
        let mut size = BatchSize::new(100);
        let mut until_two = || {
            size.went_through(size.now(), SHORT);
            size.went_through(size.now(), SHORT);
            size.collided();
            (0..).find(|_| {
                size.went_through(1, SHORT);
                size.now() > 1
            })
        };
        let (first, second) = (until_two(), until_two());
        assert!(first >= Some(64) && second >= Some(2 * 64), "{first:?} {second:?}");
    }
}
