//! The program `semel`: an idempotent consumer without code, and what an operator needs to see.
//!
//! `args` says what can be asked; each verb is a file; `config` reads `semel.toml`; `convert` turns it into core's settings; `store` opens
//! the right store; `sql` is the handler that runs the author's SQL. Data goes to stdout, everything else to stderr. Exit codes: 0 done,
//! 1 failed, 2 wrong use or configuration.

mod args;
mod config;
mod convert;
mod error;
mod hints;
mod logging;
mod output;
mod progress;
mod sql;
mod store;
mod verbs;

use clap::Parser;
use std::process::ExitCode;

/// Runs the program with the process's own arguments and environment.
pub fn main() -> ExitCode {
    let args = match args::Args::try_parse() {
        Ok(args) => args,
        // Help and version are data; wrong use is exit code 2. A closed pipe is nobody's fault.
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(2) } else { ExitCode::SUCCESS };
        }
    };
    logging::start();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            output::complain(format_args!("cannot start: {error}"));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(verbs::dispatch(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            output::complain(format_args!("{error}"));
            error.exit_code()
        }
    }
}
