//! What can be asked of the program.

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

const AFTER_HELP: &str = "\
Examples:
  semel run                                    runs what semel.toml describes
  semel run shop/semel.toml --json             prints one JSON object per consumer at the end
  semel explain pay-1007                       what became of a message
  semel dead list --reason conflict            dead letters with their reasons
  semel dead replay 12                         gives a dead letter another try

Exit codes: 0 done (dead letters do not change it), 1 failed, 2 wrong use or configuration.
Environment: SEMEL_STORE (the store's address; --store wins), SEMEL_LOG (error, warn, info, debug).";

/// Turns at-least-once delivery into effectively-once processing.
#[derive(Debug, Parser)]
#[command(name = "semel", version, about, after_help = AFTER_HELP, max_term_width = 120)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Runs the consumers that a file describes
    #[command(
        after_help = "Examples:\n  semel run\n  semel run shop/semel.toml --json\n  semel run --from-start --store postgres://shop@localhost/shop"
    )]
    Run(Run),
    /// Checks a configuration: keys, SQL, the store, and whether the window is long enough
    #[command(after_help = "Examples:\n  semel check -f shop/semel.toml")]
    Check(FileOnly),
    /// Makes or upgrades semel's tables, and runs the setup files that this database has not seen
    #[command(after_help = "Examples:\n  semel migrate -f shop/semel.toml")]
    Migrate(FileOnly),
    /// Prints semel's tables as SQL, for people who run their own migrations
    #[command(after_help = "Examples:\n  semel schema --dialect postgres | psql shop")]
    Schema {
        /// Which database
        #[arg(long, value_enum)]
        dialect: Dialect,
    },
    /// Shows each consumer: what is remembered, waits, or is dead
    #[command(after_help = "Examples:\n  semel status\n  semel status --json -f shop/semel.toml")]
    Status(WithJson),
    /// Deletes ids that are older than their window, now
    #[command(after_help = "Examples:\n  semel sweep")]
    Sweep(FileOnly),
    /// Tells what became of a message
    #[command(
        override_usage = "semel explain [OPTIONS] [CONSUMER] <ID>",
        after_help = "Examples:\n  semel explain pay-1007\n  semel explain payments pay-1007 --json"
    )]
    Explain {
        /// A consumer and an id, or an id alone for all consumers
        #[arg(num_args = 1..=2, value_names = ["CONSUMER", "ID"], required = true)]
        which: Vec<String>,
        #[command(flatten)]
        common: WithJson,
    },
    /// Removes the memory of a message that is done, so that its next copy is processed again
    #[command(after_help = "Examples:\n  semel forget payments pay-1007")]
    Forget {
        /// The consumer's name
        consumer: String,
        /// The message id
        id: String,
        #[command(flatten)]
        file: FileOnly,
    },
    /// Dead letters: messages that could not be processed
    #[command(subcommand)]
    Dead(Dead),
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// Where the configuration is, and which store.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct FileOnly {
    /// The configuration
    #[arg(short = 'f', long = "file", value_name = "FILE", default_value = "semel.toml")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) store: StoreOption,
}

#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct StoreOption {
    /// The store's address, in place of the file's: sqlite:PATH or postgres://…
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
}

#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct WithJson {
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) file: FileOnly,
}

#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Run {
    /// The configuration
    #[arg(value_name = "FILE", default_value = "semel.toml")]
    pub(crate) file: PathBuf,
    /// The same as FILE
    #[arg(short = 'f', long = "file", value_name = "FILE", hide = true, conflicts_with = "file")]
    pub(crate) named: Option<PathBuf>,
    /// At the end print one JSON object per consumer on stdout
    #[arg(long)]
    pub(crate) json: bool,
    /// End when nothing came for this many seconds
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "2", value_parser = seconds)]
    pub(crate) until_idle: Option<Duration>,
    /// Read sources with positions from their beginning; what was processed is found to be known
    #[arg(long)]
    pub(crate) from_start: bool,
    /// Do not stop when most messages are refused for one reason
    #[arg(long)]
    pub(crate) no_brake: bool,
    #[command(flatten)]
    pub(crate) store: StoreOption,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Dead {
    /// Lists dead letters; the payload is not shown
    #[command(after_help = "Examples:\n  semel dead list\n  semel dead list --reason conflict --json")]
    List {
        #[command(flatten)]
        filter: Filter,
        #[command(flatten)]
        common: WithJson,
    },
    /// Shows one dead letter with its payload
    #[command(after_help = "Examples:\n  semel dead show 12")]
    Show {
        /// Its number in `dead list`
        number: i64,
        #[command(flatten)]
        common: WithJson,
    },
    /// Gives dead letters another try: the next `run` takes them up
    #[command(
        after_help = "Examples:\n  semel dead replay 12 13\n  semel dead replay --all --reason failed\n  semel dead replay 14 --as pay-1007-second"
    )]
    Replay {
        #[command(flatten)]
        which: Which,
        /// Under another id: for a conflict that is a message of its own, or a message without an id
        #[arg(long = "as", value_name = "NEW-ID", conflicts_with = "all")]
        new_id: Option<String>,
        /// Also stale ones, though they may have been processed before
        #[arg(long)]
        force: bool,
        #[command(flatten)]
        file: FileOnly,
    },
    /// Removes dead letters for good
    #[command(after_help = "Examples:\n  semel dead discard 12\n  semel dead discard --all --reason undecodable")]
    Discard {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        file: FileOnly,
    },
}

#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Filter {
    /// Of one consumer
    #[arg(long, value_name = "NAME")]
    pub(crate) consumer: Option<String>,
    /// With one reason, e.g. conflict, failed, missing-id
    #[arg(long, value_name = "REASON")]
    pub(crate) reason: Option<semel::Reason>,
    /// With one message id
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
}

#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Which {
    /// Numbers in `dead list`
    #[arg(value_name = "NUMBER", required_unless_present = "all", conflicts_with_all = ["all", "consumer", "reason", "id"])]
    pub(crate) numbers: Vec<i64>,
    /// All of them, or all that the filter lets through
    #[arg(long)]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) filter: Filter,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds, such as 5".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|_| "expected a number of seconds from 0 on".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_are_consistent() {
        Args::command().debug_assert();
    }
}
