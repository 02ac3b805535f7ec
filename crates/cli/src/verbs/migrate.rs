//! `semel migrate`: makes or upgrades the tables.

use crate::args::FileOnly;
use crate::config::Config;
use crate::error::CliError;
use crate::output;
use crate::store::{Access, OnStore, SqlStore, on_store};
use crate::verbs::{ONE_LANE, load_of, setups};
use semel::Semel;

pub(crate) async fn migrate(file: &FileOnly) -> Result<(), CliError> {
    let config = load_of(file)?;
    let address = config.store.clone();
    on_store(&address, ONE_LANE, Access::Make, Migrate(config)).await
}

struct Migrate(Config);

impl OnStore for Migrate {
    async fn run<S: SqlStore>(self, semel: Semel<S>) -> Result<(), CliError> {
        let setups = setups(&self.0, S::KIND)?;
        semel.migrate(&setups).await?;
        for consumer in &self.0.consumers {
            semel.register(&consumer.name, Some(consumer.window)).await?;
        }
        output::say(format_args!("{}: the tables are up to date", self.0.store));
        Ok(())
    }
}
