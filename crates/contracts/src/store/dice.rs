//! Chance from one printed seed.

use std::time::{SystemTime, UNIX_EPOCH};

/// Numbers that look random and come again with the same seed (xorshift64*).
pub(crate) struct Dice(u64);

impl Dice {
    /// The seed of `SEMEL_SEED`, else a new one. Whoever takes it prints it when something fails.
    pub(crate) fn seed() -> u64 {
        let given = std::env::var("SEMEL_SEED").ok().map(|seed| seed.parse().expect("SEMEL_SEED is a number"));
        given.unwrap_or_else(|| {
            SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| u64::from(since.subsec_nanos()))
        })
    }

    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds begin far from each other, and none is the zero from which nothing comes.
        Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// 0 to `end` - 1.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}
