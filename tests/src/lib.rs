//! What the tests across crates need around semel: databases of their own, a network that fails on command, and programs
//! that can be killed; and a shop whose books tell whether every payment was booked once.
//!
//! Nothing here depends on semel, so that a fault in semel cannot hide in the tools that look for it. These functions are
//! made for tests: they panic, with what they know, where a library would return an error.

pub mod base;
pub mod cli_world;
pub mod freezer;
pub mod laboratory;
pub mod oracle;
pub mod payments;
pub mod postgres;
pub mod program;
pub mod proxy;
pub mod random;
pub mod shop;
