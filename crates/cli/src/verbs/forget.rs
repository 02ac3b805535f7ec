//! `semel forget`: so that the next copy of a message that is done is processed again.

use crate::args::FileOnly;
use crate::error::CliError;
use crate::output::{self, visible};
use crate::store::{Access, OnStore, SqlStore, on_store};
use crate::verbs::{ONE_LANE, existing, load_of};
use semel::{Forgotten, Records, Semel};

pub(crate) async fn forget(consumer: &str, id: &str, file: &FileOnly) -> Result<(), CliError> {
    let config = load_of(file)?;
    on_store(&config.store, ONE_LANE, Access::Existing, Forget { consumer: consumer.to_owned(), id: id.to_owned() })
        .await
}

struct Forget {
    consumer: String,
    id: String,
}

impl OnStore for Forget {
    async fn run<S: SqlStore>(self, semel: Semel<S>) -> Result<(), CliError> {
        let mut lane = existing(&semel).await?;
        let forgotten = lane.forget(&self.consumer, &self.id).await?;
        lane.done();
        let (consumer, id) = (visible(&self.consumer), visible(&self.id));
        match forgotten {
            Forgotten::Done => {
                output::say(format_args!("{consumer} has forgotten {id}: its next copy is processed as new"));
                Ok(())
            }
            Forgotten::Unknown => {
                Err(CliError::Failed(format!("{consumer} does not know {id}, so there is nothing to forget")))
            }
            Forgotten::Waits => Err(CliError::Failed(format!(
                "{id} waits in the inbox of {consumer}: it is not done, so it cannot be forgotten"
            ))),
            Forgotten::Dead => Err(CliError::Failed(format!(
                "{id} is a dead letter of {consumer}: use `dead replay` or `dead discard` first"
            ))),
        }
    }
}
