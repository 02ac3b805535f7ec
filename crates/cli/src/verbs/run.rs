//! `semel run`: the consumers that a file describes.

use crate::args::Run;
use crate::config::{self, Config, ConsumerConfig};
use crate::convert::{self, Asked};
use crate::error::CliError;
use crate::hints::Hints;
use crate::output::{self, count};
use crate::progress;
use crate::sql::Sql;
use crate::store::{Access, OnStore, SqlStore, on_store};
use crate::verbs::{faults_of_sql, lanes_of, load, setups, statements};
use semel::{Consumer, DeadFilter, Records, RunError, Semel, Stop, Summary};
use serde::Serialize;
use std::path::{Path, PathBuf};
use tokio::task::JoinSet;

pub(crate) async fn run(args: Run) -> Result<(), CliError> {
    let file = args.named.clone().unwrap_or_else(|| args.file.clone());
    let config = load(&file, args.store.store.as_deref())?;
    if config.consumers.is_empty() {
        return Err(CliError::Use(format!("{}: there is no consumer to run", file.display())));
    }
    let lanes = lanes_of(&config);
    let address = config.store.clone();
    on_store(&address, lanes, Access::Make, RunVerb { config, args, file, lanes }).await
}

struct RunVerb {
    config: Config,
    args: Run,
    file: PathBuf,
    lanes: usize,
}

impl OnStore for RunVerb {
    async fn run<S: SqlStore>(self, semel: Semel<S>) -> Result<(), CliError> {
        let RunVerb { config, args, file, lanes } = self;
        if let Some(capacity) = semel.store().capacity().await?
            && capacity < lanes
        {
            return Err(CliError::Failed(format!(
                "the lanes of this file need {lanes} connections, and the server has {capacity} left for this role: \
                 lower `lanes`, or raise max_connections"
            )));
        }
        semel.migrate(&setups(&config, S::KIND)?).await?;
        let faults = faults_of_sql(semel.store(), &config).await?;
        if !faults.is_empty() {
            return Err(CliError::Failed(faults.join("\nsemel: ")));
        }
        let stop = Stop::new();
        let signals = tokio::spawn(stop_on_signals(stop.clone()));
        let asked = Asked { until_idle: args.until_idle, from_start: args.from_start, no_brake: args.no_brake };

        let mut running = JoinSet::new();
        for (at, consumer) in config.consumers.iter().enumerate() {
            let mut built = Consumer::named(&consumer.name, semel.clone())
                .settings(convert::settings(consumer, asked))
                .stop_on(stop.clone());
            for handler in &consumer.handlers {
                built = built.raw(handler.kind.as_deref(), Sql::<S>(statements::<S>(&handler.work)?));
            }
            let (consumer, base) = (consumer.clone(), file.parent().map(Path::to_owned).unwrap_or_default());
            running.spawn(async move { (at, drive(built, &consumer, &base).await) });
        }
        let mut ended: Vec<Option<Summary>> = config.consumers.iter().map(|_| None).collect();
        let mut failure = None;
        while let Some(joined) = running.join_next().await {
            match joined {
                Ok((at, Ok(summary))) => ended[at] = Some(summary),
                Ok((_, Err(error))) => {
                    // One that failed ends the program, after the others have finished what they have in work.
                    stop.stop();
                    failure.get_or_insert(CliError::from(error));
                }
                Err(error) => {
                    stop.stop();
                    failure.get_or_insert(CliError::Failed(format!("an internal error ended a consumer: {error}")));
                }
            }
        }
        signals.abort();
        let summaries: Vec<Summary> = ended.into_iter().flatten().collect();
        print(&summaries, args.json);
        if failure.is_none() && !args.json {
            hint(&semel, &summaries, &Hints::new(&file, args.store.store.as_deref())).await;
        }
        failure.map_or(Ok(()), Err)
    }
}

/// Runs one consumer on its source. `base`: the directory of the configuration.
async fn drive<S: SqlStore>(built: Consumer<S>, consumer: &ConsumerConfig, base: &Path) -> Result<Summary, RunError> {
    match &consumer.from {
        #[cfg(feature = "file")]
        Some(config::From::File { path, follow }) => {
            // Named as the configuration names it: positions and coordinates must not depend on where the program was started.
            let name = path.strip_prefix(base).unwrap_or(path).display().to_string();
            let source = semel::file::source(path)
                .named(name)
                .follow(*follow)
                .line_length_max(consumer.max_body)
                .notice(|notice| output::say(format_args!("{notice}")));
            let _drawing = progress::draw(&consumer.name, source.progress(), built.progress());
            built.run(source).await
        }
        #[cfg(feature = "file")]
        Some(config::From::Stdin) => built.run(semel::file::stdin().line_length_max(consumer.max_body)).await,
        _ => Err(RunError::Broker(semel::BrokerError::Broken(format!(
            "consumer {}: this version of semel reads from files and stdin only",
            consumer.name
        )))),
    }
}

async fn stop_on_signals(stop: Stop) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return output::complain(format_args!("signals cannot be caught: this run ends with its source only"));
    };
    let mut asked = false;
    loop {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        if asked {
            output::complain(format_args!("ended at once; what was in work is rolled back and comes again"));
            std::process::exit(1);
        }
        asked = true;
        stop.stop();
        output::say(format_args!("stopping: finishing what is in work (once more to end at once)"));
    }
}

/// The object that scripts read: its fields stay as they are.
#[derive(Serialize)]
struct Object<'a> {
    consumer: &'a str,
    received: u64,
    processed: u64,
    duplicates: u64,
    conflicts: u64,
    dead_lettered: u64,
    deferred: u64,
    ignored: u64,
    seconds: f64,
}

fn print(summaries: &[Summary], json: bool) {
    let width = summaries.iter().map(|summary| summary.consumer.chars().count()).max().unwrap_or(0);
    for summary in summaries {
        let Summary {
            consumer,
            received,
            processed,
            duplicates,
            conflicts,
            dead_lettered,
            deferred,
            ignored,
            lost_acks,
            took,
        } = summary;
        let seconds = took.as_secs_f64();
        if json {
            output::json(&Object {
                consumer,
                received: *received,
                processed: *processed,
                duplicates: *duplicates,
                conflicts: *conflicts,
                dead_lettered: *dead_lettered,
                deferred: *deferred,
                ignored: *ignored,
                seconds: (seconds * 1000.0).round() / 1000.0,
            });
            continue;
        }
        let mut parts = vec![
            format!("{received} received"),
            format!("{processed} processed"),
            count(*duplicates, "duplicate", "duplicates"),
            count(*conflicts, "conflict", "conflicts"),
            format!("{dead_lettered} dead-lettered"),
            format!("{deferred} deferred"),
        ];
        if *ignored > 0 {
            parts.push(format!("{ignored} ignored"));
        }
        parts.push(format!("{seconds:.2} s"));
        output::data(format_args!("{consumer:<width$}   {}", parts.join(" · ")));
        if *lost_acks > 0 {
            output::say(format_args!(
                "{lost_acks} acknowledgements did not arrive; those messages come again and are known"
            ));
        }
    }
}

/// Two lines on what to try next.
async fn hint<S: SqlStore>(semel: &Semel<S>, summaries: &[Summary], hints: &Hints) {
    let any = |count: fn(&Summary) -> u64| summaries.iter().any(|summary| count(summary) > 0);
    let example = match any(|summary| summary.dead_lettered + summary.conflicts) {
        true => example_id(semel).await,
        false => None,
    };
    let set_aside = any(|summary| summary.dead_lettered) || example.is_some();
    let commands = match (set_aside, example) {
        (true, Some((consumer, id))) => [
            ("what was set aside, and why", hints.command(&["dead", "list"], &[])),
            ("what became of one message", hints.command(&["explain"], &[&consumer, &id])),
        ],
        (true, None) => [
            ("what was set aside, and why", hints.command(&["dead", "list"], &[])),
            ("what is remembered", hints.command(&["status"], &[])),
        ],
        (false, _) if any(|summary| summary.deferred) => [
            ("how many wait, and how many are due", hints.command(&["status"], &[])),
            ("try those that are due", hints.command(&["run"], &[])),
        ],
        (false, _) => [
            ("what is remembered", hints.command(&["status"], &[])),
            ("read it all again: everything is known", hints.command(&["run", "--from-start"], &[])),
        ],
    };
    for (what, command) in commands {
        output::say(format_args!("  {what}:  {command}"));
    }
}

/// The id of some dead letter; a conflict tells the best story.
async fn example_id<S: SqlStore>(semel: &Semel<S>) -> Option<(String, String)> {
    let mut lane = semel.lane().await.ok()?;
    let letters = lane.dead_letters(&DeadFilter::default(), 0, 100).await.ok()?;
    lane.done();
    let conflict = letters.iter().find(|stored| stored.letter.reason == semel::Reason::Conflict);
    let stored = conflict.or_else(|| letters.iter().find(|stored| stored.letter.id.is_some()))?;
    // One that cannot be shown as it is cannot be pasted either.
    let id = stored.letter.id.clone().filter(|id| output::visible(id) == *id)?;
    Some((stored.consumer.clone(), id))
}
