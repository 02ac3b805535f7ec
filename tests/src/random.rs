//! Random numbers from one seed that is printed, so that a failure can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

/// The variable with the seed of a run that is to be repeated.
pub const SEED_VARIABLE: &str = "SEMEL_TEST_SEED";

/// A generator (splitmix64): small, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// From a seed that is written down.
    pub fn seeded(seed: u64) -> Self {
        Random(seed)
    }

    /// From `SEMEL_TEST_SEED`, or else from the clock; either is printed, and cargo shows it when the test fails.
    ///
    /// # Panics
    ///
    /// If the variable holds no number.
    #[allow(clippy::print_stdout, reason = "cargo shows it with the test that failed")]
    pub fn new() -> Self {
        let seed = match std::env::var(SEED_VARIABLE) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{SEED_VARIABLE} is a number, not {text:?}")),
            Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64),
        };
        println!("the seed is {seed}: {SEED_VARIABLE}={seed} repeats this run");
        Random(seed)
    }

    /// A number below `limit`, which is at least 1.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

impl Default for Random {
    fn default() -> Self {
        Random::new()
    }
}
