//! `semel dead`: dead letters, listed, shown, replayed, discarded.

use crate::args::{Dead, FileOnly, Filter, Which, WithJson};
use crate::config::Config;
use crate::convert;
use crate::error::CliError;
use crate::output::{self, table, visible};
use crate::store::{Access, OnStore, SqlStore, on_store};
use crate::verbs::{ONE_LANE, existing, load_of};
use semel::{DeadFilter, Discarded, Records, Replay, ReplayError, Semel, StoreError, StoredDeadLetter};
use serde_json::{Value, json};

/// Dead letters read at once; a list is not bounded, but what is in memory is.
const PAGE: usize = 500;

pub(crate) async fn dead(verb: Dead) -> Result<(), CliError> {
    match verb {
        Dead::List { filter, common: WithJson { json, file } } => {
            let config = load_of(&file)?;
            on_store(&config.store, ONE_LANE, Access::Existing, List { filter: filter_of(&filter), json }).await
        }
        Dead::Show { number, common: WithJson { json, file } } => {
            let config = load_of(&file)?;
            on_store(&config.store, ONE_LANE, Access::Existing, Show { number, json }).await
        }
        Dead::Replay { which, new_id, force, file } => {
            let act = Act::Replay { new_id, force };
            act_on(which, act, &file).await
        }
        Dead::Discard { which, file } => act_on(which, Act::Discard, &file).await,
    }
}

fn filter_of(filter: &Filter) -> DeadFilter {
    DeadFilter { consumer: filter.consumer.clone(), reason: filter.reason, reference: filter.id.clone(), number: None }
}

async fn act_on(which: Which, act: Act, file: &FileOnly) -> Result<(), CliError> {
    let config = load_of(file)?;
    let address = config.store.clone();
    if which.numbers.len() > 1 && matches!(&act, Act::Replay { new_id: Some(_), .. }) {
        return Err(CliError::Use("--as gives one new id, so it takes one number".to_owned()));
    }
    on_store(&address, ONE_LANE, Access::Existing, ActOn { config, which, act }).await
}

struct List {
    filter: DeadFilter,
    json: bool,
}

impl OnStore for List {
    async fn run<S: SqlStore>(self, semel: Semel<S>) -> Result<(), CliError> {
        let mut lane = existing(&semel).await?;
        let mut after = 0;
        let mut any = false;
        loop {
            let page = lane.dead_letters(&self.filter, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.number;
            match self.json {
                true => page.iter().for_each(|stored| output::json(&object(stored))),
                false => {
                    let head = ["number", "consumer", "reason", "id", "seen", "last", "error"];
                    let mut rows = if any { Vec::new() } else { vec![head.map(str::to_owned).to_vec()] };
                    rows.extend(page.iter().map(row));
                    table(&rows);
                }
            }
            any = true;
        }
        lane.done();
        if !any && !self.json {
            output::say(format_args!("no dead letters"));
        }
        Ok(())
    }
}

fn row(stored: &StoredDeadLetter) -> Vec<String> {
    let letter = &stored.letter;
    vec![
        stored.number.to_string(),
        stored.consumer.clone(),
        letter.reason.to_string(),
        visible(letter.reference()),
        stored.seen.to_string(),
        stored.last_at.to_string(),
        visible(&letter.error),
    ]
}

/// Its fields are documented and stay as they are.
pub(crate) fn object(stored: &StoredDeadLetter) -> Value {
    let letter = &stored.letter;
    json!({
        "number": stored.number,
        "consumer": stored.consumer,
        "id": letter.id,
        "kind": letter.kind,
        "key": letter.key,
        "reason": letter.reason.as_str(),
        "error": letter.error,
        "attempts": letter.attempts,
        "seen": stored.seen,
        "first": stored.first_at.to_string(),
        "last": stored.last_at.to_string(),
        "coordinates": letter.envelope.coordinates,
        "bytes": letter.envelope.length(),
    })
}

struct Show {
    number: i64,
    json: bool,
}

impl OnStore for Show {
    async fn run<S: SqlStore>(self, semel: Semel<S>) -> Result<(), CliError> {
        let mut lane = existing(&semel).await?;
        let filter = DeadFilter { number: Some(self.number), ..DeadFilter::default() };
        let stored = lane.dead_letters(&filter, 0, 1).await?.pop();
        lane.done();
        let stored = stored.ok_or(ReplayError::Gone(self.number))?;
        let envelope = &stored.letter.envelope;
        let body = String::from_utf8_lossy(&envelope.body);
        let mut object = object(&stored);
        if let Value::Object(fields) = &mut object {
            let headers = envelope.headers.iter().map(|(name, value)| json!([name, value]));
            fields.insert("headers".to_owned(), headers.collect());
            fields.insert("body".to_owned(), json!(body));
            fields.insert(
                "body_is_whole".to_owned(),
                json!(envelope.is_whole() && !matches!(body, std::borrow::Cow::Owned(_))),
            );
        }
        match (self.json, object) {
            (true, object) => output::json(&object),
            (false, Value::Object(fields)) => {
                for (name, value) in fields {
                    let text = value.as_str().map_or_else(|| value.to_string(), visible);
                    output::data(format_args!("{name:<14} {text}"));
                }
            }
            (false, _) => {}
        }
        Ok(())
    }
}

enum Act {
    Replay { new_id: Option<String>, force: bool },
    Discard,
}

struct ActOn {
    config: Config,
    which: Which,
    act: Act,
}

impl OnStore for ActOn {
    async fn run<S: SqlStore>(self, semel: Semel<S>) -> Result<(), CliError> {
        let numbers = match self.which.all {
            false => self.which.numbers.clone(),
            true => all_numbers(&semel, &filter_of(&self.which.filter)).await?,
        };
        let (mut done, mut failed) = (0_u64, 0_u64);
        for number in numbers {
            let acted = match &self.act {
                Act::Discard => discard(&semel, number).await,
                Act::Replay { new_id, force } => self.replay(&semel, number, new_id.clone(), *force).await,
            };
            match acted {
                Ok(()) => done += 1,
                Err(error) => {
                    failed += 1;
                    output::complain(format_args!("dead letter {number}: {error}"));
                }
            }
        }
        let letters = output::count(done, "dead letter", "dead letters");
        match self.act {
            Act::Discard => output::say(format_args!("{letters} discarded")),
            Act::Replay { .. } => output::say(format_args!("{letters} put back: the next `run` takes them up")),
        }
        match failed {
            0 => Ok(()),
            failed => Err(CliError::Failed(format!(
                "{} left as they were",
                output::count(failed, "dead letter", "dead letters")
            ))),
        }
    }
}

impl ActOn {
    async fn replay<S: SqlStore>(
        &self,
        semel: &Semel<S>,
        number: i64,
        new_id: Option<String>,
        force: bool,
    ) -> Result<(), CliError> {
        let filter = DeadFilter { number: Some(number), ..DeadFilter::default() };
        let mut lane = existing(semel).await?;
        let stored = lane.dead_letters(&filter, 0, 1).await?.pop();
        lane.done();
        let name = stored.ok_or(ReplayError::Gone(number))?.consumer;
        let consumer = self.config.consumer(&name).ok_or_else(|| {
            CliError::Use(format!("it belongs to consumer {name}, which is not in {}", self.config.file.display()))
        })?;
        let how = Replay { new_id, force, hold: convert::hold(consumer) };
        Ok(semel.replay(number, &convert::identity(consumer), &how).await?)
    }
}

async fn discard<S: SqlStore>(semel: &Semel<S>, number: i64) -> Result<(), CliError> {
    let mut lane = existing(semel).await?;
    let discarded = lane.discard(number).await?;
    lane.done();
    match discarded {
        Discarded::Done => Ok(()),
        Discarded::Unknown => Err(ReplayError::Gone(number).into()),
    }
}

async fn all_numbers<S: SqlStore>(semel: &Semel<S>, filter: &DeadFilter) -> Result<Vec<i64>, CliError> {
    let mut lane = existing(semel).await?;
    let mut numbers: Vec<i64> = Vec::new();
    loop {
        let after = numbers.last().copied().unwrap_or(0);
        let page: Result<Vec<StoredDeadLetter>, StoreError> = lane.dead_letters(filter, after, PAGE).await;
        let page = page?;
        if page.is_empty() {
            break;
        }
        numbers.extend(page.iter().map(|stored| stored.number));
    }
    lane.done();
    Ok(numbers)
}
