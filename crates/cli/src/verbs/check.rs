//! `semel check`: says what would go wrong, before it does.

use crate::args::FileOnly;
use crate::config::{Config, ConsumerConfig, StoreAddress};
use crate::error::CliError;
use crate::output;
use crate::store::{Access, OnStore, SqlStore, on_store};
use crate::verbs::{ONE_LANE, faults_of_sql, lanes_of, load_of};
use semel::{Records, Semel, Trouble};
use std::time::Duration;

pub(crate) async fn check(file: &FileOnly) -> Result<(), CliError> {
    let config = load_of(file)?;
    let address = config.store.clone();
    on_store(&address, ONE_LANE, Access::Existing, Check { config }).await
}

struct Check {
    config: Config,
}

impl OnStore for Check {
    async fn run<S: SqlStore>(self, semel: Semel<S>) -> Result<(), CliError> {
        let config = &self.config;
        let mut failures = Vec::new();
        let mut lane = semel.lane().await?;
        output::say(format_args!("store: {} answers", config.store));
        let migrated = match lane.check_schema().await {
            Ok(()) => true,
            Err(error) if error.trouble == Trouble::Schema => {
                failures.push(error.to_string());
                false
            }
            Err(error) => return Err(error.into()),
        };
        lane.done();
        for consumer in &config.consumers {
            warnings(config, consumer)
                .iter()
                .for_each(|text| output::say(format_args!("warning: consumer.{}: {text}", consumer.name)));
        }
        // Before the setup has run, the author's own tables may be missing.
        if migrated {
            failures.extend(faults_of_sql(semel.store(), config).await?);
        }
        if let Some(capacity) = semel.store().capacity().await? {
            let lanes = lanes_of(config);
            if lanes > capacity {
                failures.push(format!(
                    "the lanes need {lanes} connections, and the server has {capacity} left for this role"
                ));
            }
        }
        if failures.is_empty() {
            output::say(format_args!("{}: all good", config.file.display()));
            return Ok(());
        }
        Err(CliError::Failed(failures.join("\nsemel: ")))
    }
}

fn warnings(config: &Config, consumer: &ConsumerConfig) -> Vec<String> {
    let mut warnings = Vec::new();
    let waits: Duration = consumer.retry.deferred.iter().sum();
    if waits > consumer.window {
        warnings.push(format!(
            "the retry plan may take {waits}, longer than the window of {}: copies that come after the window are not known any more; \
             raise `window`",
            output::span(consumer.window),
            waits = output::span(waits),
        ));
    }
    if consumer.window < Duration::from_secs(3600) {
        warnings.push(format!(
            "a window of {} forgets an id before most replays come; a source that is read again later is then processed again, \
             unless `time` lets semel refuse what is too old",
            output::span(consumer.window)
        ));
    }
    if consumer.time.is_none() {
        warnings.push(
            "no `time` is set: ids that carry no time of their own cannot be too old, so a copy that comes after the window is processed again"
                .to_owned(),
        );
    }
    if matches!(config.store, StoreAddress::Sqlite(_)) && consumer.lanes > 4 {
        warnings
            .push(format!("SQLite writes one transaction at a time: {} lanes are no faster than 4", consumer.lanes));
    }
    warnings
}
