//! A permit exists only after a commit.

use semel::{AckPermit, Outcome};

fn main() {
    let _permit = AckPermit::new(1, Outcome::Processed);
}
