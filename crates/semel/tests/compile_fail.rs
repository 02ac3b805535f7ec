//! What the compiler refuses: every mistake that would lose or double a message, with words that say what is wrong. The words are in the `.stderr`
//! file beside each mistake; `TRYBUILD=overwrite` writes them anew.
//!
//! Only with all features, as `cargo test --workspace` has them: the compiler lists what implements a trait.
#![cfg(all(feature = "sqlite", feature = "postgres", feature = "file"))]

use std::process::Command;

#[test]
fn every_mistake_is_explained() {
    if the_words_are_those_of_this_compiler() {
        trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
    } else {
        eprintln!("skipped: the words for mistakes are those of rustc 1.95, and this is another one");
    }
}

fn the_words_are_those_of_this_compiler() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    version.starts_with(b"rustc 1.95.")
}
