//! `semel explain`: what became of a message.

use crate::args::WithJson;
use crate::error::CliError;
use crate::output::{self, visible};
use crate::store::{Access, OnStore, SqlStore, on_store};
use crate::verbs::dead;
use crate::verbs::{ONE_LANE, existing, load_of};
use semel::{Explained, Records, Semel};
use serde_json::{Value, json};

pub(crate) async fn explain(which: &[String], args: &WithJson) -> Result<(), CliError> {
    let config = load_of(&args.file)?;
    let (consumer, id) = match which {
        [consumer, id] => (Some(consumer.clone()), id.clone()),
        [id] => (None, id.clone()),
        _ => return Err(CliError::Use("expected a message id, or a consumer and a message id".to_owned())),
    };
    on_store(&config.store, ONE_LANE, Access::Existing, Explain { consumer, id, json: args.json }).await
}

struct Explain {
    consumer: Option<String>,
    id: String,
    json: bool,
}

impl OnStore for Explain {
    async fn run<S: SqlStore>(self, semel: Semel<S>) -> Result<(), CliError> {
        let mut lane = existing(&semel).await?;
        let found = lane.explain(self.consumer.as_deref(), &self.id).await?;
        lane.done();
        let id = visible(&self.id);
        if found.is_empty() {
            let who = match &self.consumer {
                Some(consumer) => format!("{} knows nothing", visible(consumer)),
                None => "no consumer knows anything".to_owned(),
            };
            return Err(CliError::Failed(format!(
                "{who} of {id}: it never came, or it is older than the window and was swept"
            )));
        }
        for explained in &found {
            match self.json {
                true => output::json(&object(&self.id, explained)),
                false => tell(&id, explained),
            }
        }
        Ok(())
    }
}

fn tell(id: &str, explained: &Explained) {
    let Explained { consumer, claim, waiting, dead } = explained;
    let consumer = visible(consumer);
    let own = dead.iter().any(|stored| stored.letter.reason.claims());
    match (claim, waiting) {
        (_, Some(waiting)) => {
            let tries = output::count(u64::from(waiting.attempts), "try", "tries");
            output::data(format_args!(
                "{consumer}: {id} waits in the inbox since {}, after {tries}; due {}",
                waiting.since, waiting.due_at
            ));
            if !waiting.error.is_empty() {
                output::data(format_args!("  {}", visible(&waiting.error)));
            }
        }
        (Some(claim), None) if !own => {
            output::data(format_args!("{consumer}: {id} was processed; claimed {}", claim.claimed_at))
        }
        (Some(_), None) => {}
        (None, None) => output::data(format_args!("{consumer}: {id} was not processed")),
    }
    for stored in dead {
        let letter = &stored.letter;
        let times = output::count(stored.seen, "time", "times");
        output::data(format_args!(
            "{consumer}: dead letter {} ({}), came {times}, first {}, last {}",
            stored.number, letter.reason, stored.first_at, stored.last_at
        ));
        output::data(format_args!("  {}", visible(&letter.error)));
    }
}

/// Its fields are documented and stay as they are.
fn object(id: &str, explained: &Explained) -> Value {
    let own = explained.dead.iter().any(|stored| stored.letter.reason.claims());
    let state = match (&explained.claim, &explained.waiting) {
        (_, Some(_)) => "waiting",
        (Some(_), None) if own => "dead",
        (Some(_), None) => "done",
        (None, None) => "dead",
    };
    json!({
        "consumer": explained.consumer,
        "id": id,
        "state": state,
        "claim": explained.claim.map(|claim| json!({
            "claimed_at": claim.claimed_at.to_string(),
            "fingerprint": format!("{:?}", claim.fingerprint),
            "time": claim.time.map(|time| time.to_string()),
        })),
        "waiting": explained.waiting.as_ref().map(|waiting| json!({
            "kind": waiting.kind,
            "key": waiting.key,
            "attempts": waiting.attempts,
            "due_at": waiting.due_at.to_string(),
            "since": waiting.since.to_string(),
            "error": waiting.error,
        })),
        "dead_letters": explained.dead.iter().map(dead::object).collect::<Vec<_>>(),
    })
}
