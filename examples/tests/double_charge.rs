//! The example is run, and what it prints is checked.

use std::path::PathBuf;
use std::process::Command;

/// `cargo test` builds the examples of its package beside the tests.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("a test has a path");
    let profile = tests.parent().and_then(|deps| deps.parent()).expect("target/PROFILE/deps");
    profile.join("examples").join(name)
}

#[test]
fn the_naive_handler_charges_twice_and_the_claim_once() {
    let output = Command::new(example("double-charge")).output().expect("the example runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let row =
        |begins: &str| said.lines().find(|line| line.starts_with(begins)).unwrap_or_else(|| panic!("{begins}: {said}"));
    for accident in ["killed between work and ack", "two copies at the same moment"] {
        let counts: Vec<&str> = row(accident).split_whitespace().rev().take(4).collect();
        assert_eq!(counts, ["charge", "1", "charges", "2"], "{said}");
    }
    assert_eq!(row("check, then act:"), "check, then act: charged twice");
    assert_eq!(row("claim first:"), "claim first: charged once");
}
