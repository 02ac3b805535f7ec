//! A permit exists only after a commit.

use semel::{AckPermit, Outcome};

fn main() {
    let _permit = AckPermit { token: 1, outcome: Outcome::Processed };
}
