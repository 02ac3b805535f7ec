//! Log lines on stderr: one a change of state, never one a message, never a payload. `SEMEL_LOG=debug` says more.

use std::io::IsTerminal;
use std::str::FromStr;
use tracing_subscriber::filter::LevelFilter;

pub(crate) fn start() {
    let level = std::env::var("SEMEL_LOG").ok().and_then(|text| LevelFilter::from_str(&text).ok());
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(level.unwrap_or(LevelFilter::INFO))
        .with_target(false)
        .init();
}
