//! What the compiler takes and what it refuses: every shape of a handler compiles, and every mistake that would lose or double a message does
//! not, with words that say what is wrong. The words are in the `.stderr` file beside each mistake; `TRYBUILD=overwrite` writes them anew.
#![cfg(feature = "sqlite")]

use std::process::Command;

#[test]
fn every_shape_compiles_and_every_mistake_is_explained() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/shapes/*.rs");
    if !the_words_are_those_of_this_compiler() {
        eprintln!("skipped: the words for mistakes are those of rustc 1.95, and this is another one");
        return;
    }
    cases.compile_fail("tests/mistakes/*.rs");
    if cfg!(feature = "postgres") {
        cases.compile_fail("tests/mistakes/two_stores/*.rs");
    }
}

fn the_words_are_those_of_this_compiler() -> bool {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let version = Command::new(rustc).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    version.starts_with(b"rustc 1.95.")
}
