//! `semel sweep`: deletes what is older than its window, now.

use crate::args::FileOnly;
use crate::config::Config;
use crate::error::CliError;
use crate::output::{self, count};
use crate::store::{Access, OnStore, SqlStore, on_store};
use crate::verbs::{ONE_LANE, existing, load_of};
use semel::Semel;

pub(crate) async fn sweep(file: &FileOnly) -> Result<(), CliError> {
    let config = load_of(file)?;
    let address = config.store.clone();
    on_store(&address, ONE_LANE, Access::Existing, Sweep(config)).await
}

struct Sweep(Config);

impl OnStore for Sweep {
    async fn run<S: SqlStore>(self, semel: Semel<S>) -> Result<(), CliError> {
        existing(&semel).await?.done();
        for consumer in &self.0.consumers {
            let deleted = semel.sweep(&consumer.name, consumer.window).await?;
            let ids = count(deleted, "id", "ids");
            output::say(format_args!("{}: {ids} older than {} deleted", consumer.name, output::span(consumer.window)));
        }
        Ok(())
    }
}
