//! `semel status`: each consumer in a few lines.

use crate::args::WithJson;
use crate::error::CliError;
use crate::output::{self, span, table, visible};
use crate::store::{Access, OnStore, SqlStore, on_store};
use crate::verbs::{ONE_LANE, existing, load_of};
use semel::{ConsumerStatus, Records, Semel};
use serde_json::{Map, Value, json};

pub(crate) async fn status(args: &WithJson) -> Result<(), CliError> {
    let config = load_of(&args.file)?;
    on_store(&config.store, ONE_LANE, Access::Existing, Status { json: args.json }).await
}

struct Status {
    json: bool,
}

impl OnStore for Status {
    async fn run<S: SqlStore>(self, semel: Semel<S>) -> Result<(), CliError> {
        let mut lane = existing(&semel).await?;
        let all = lane.status().await?;
        lane.done();
        if self.json {
            all.iter().for_each(|status| output::json(&object(status)));
            return Ok(());
        }
        if all.is_empty() {
            output::say(format_args!("no consumer has run on this store yet"));
            return Ok(());
        }
        let head = ["consumer", "remembered", "waiting", "due", "dead letters", "oldest id", "window"];
        let mut rows = vec![head.map(str::to_owned).to_vec()];
        rows.extend(all.iter().map(row));
        table(&rows);
        for status in &all {
            for (source, _, position) in &status.positions {
                output::data(format_args!(
                    "{} has read {} up to {}",
                    status.consumer,
                    visible(source),
                    visible(position)
                ));
            }
        }
        Ok(())
    }
}

fn row(status: &ConsumerStatus) -> Vec<String> {
    let dead: Vec<String> = status.dead.iter().map(|(reason, number)| format!("{number} {reason}")).collect();
    vec![
        status.consumer.clone(),
        status.claims.to_string(),
        status.waiting.to_string(),
        status.due.to_string(),
        if dead.is_empty() { "none".to_owned() } else { dead.join(", ") },
        status.oldest_claim.map_or_else(|| "-".to_owned(), |time| time.to_string()),
        status.window.map_or_else(|| "default".to_owned(), span),
    ]
}

/// Its fields are documented and stay as they are.
fn object(status: &ConsumerStatus) -> Value {
    let dead: Map<String, Value> =
        status.dead.iter().map(|(reason, number)| (reason.to_string(), json!(number))).collect();
    let positions = status
        .positions
        .iter()
        .map(|(source, unit, position)| json!({ "source": source, "unit": unit, "position": position }));
    let instances =
        status.instances.iter().map(|(id, silent)| json!({ "instance": id, "silent_seconds": silent.as_secs_f64() }));
    json!({
        "consumer": status.consumer,
        "window_seconds": status.window.map(|window| window.as_secs_f64()),
        "remembered": status.claims,
        "oldest": status.oldest_claim.map(|time| time.to_string()),
        "waiting": status.waiting,
        "due": status.due,
        "dead_letters": dead,
        "floor": status.floor.map(|time| time.to_string()),
        "positions": positions.collect::<Vec<_>>(),
        "instances": instances.collect::<Vec<_>>(),
    })
}
