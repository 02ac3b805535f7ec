//! One file a verb.

mod check;
mod dead;
mod explain;
mod forget;
mod migrate;
mod run;
mod schema;
mod status;
mod sweep;

use crate::args::{Args, FileOnly, Verb};
use crate::config::{self, Built, Config, Inputs, SqlFile, SqlStep, StoreKind, Work};
use crate::error::CliError;
use crate::store::SqlStore;
use semel::{Semel, Setup, Store, Trouble};
use std::path::Path;

pub(crate) async fn dispatch(args: Args) -> Result<(), CliError> {
    match args.verb {
        Verb::Run(args) => run::run(args).await,
        Verb::Check(file) => check::check(&file).await,
        Verb::Migrate(file) => migrate::migrate(&file).await,
        Verb::Schema { dialect } => schema::schema(dialect),
        Verb::Status(args) => status::status(&args).await,
        Verb::Sweep(file) => sweep::sweep(&file).await,
        Verb::Explain { which, common } => explain::explain(&which, &common).await,
        Verb::Forget { consumer, id, file } => forget::forget(&consumer, &id, &file).await,
        Verb::Dead(verb) => dead::dead(verb).await,
    }
}

/// Connections of a verb that only looks.
const ONE_LANE: usize = 1;
/// Connections of a run beside its lanes: for the books.
const LANES_ASIDE: usize = 2;

/// All connections that a run of this file takes.
fn lanes_of(config: &Config) -> usize {
    config.consumers.iter().map(|consumer| consumer.lanes).sum::<usize>() + LANES_ASIDE
}

fn built() -> Built {
    let mut parts = Vec::new();
    if cfg!(feature = "sqlite") {
        parts.push("sqlite");
    }
    if cfg!(feature = "postgres") {
        parts.push("postgres");
    }
    if cfg!(feature = "file") {
        parts.push("file");
    }
    Built::new(parts).not_yet(["mysql", "rabbitmq", "kafka", "nats", "sqs", "servicebus", "amqp1", "redis"])
}

fn load(file: &Path, store: Option<&str>) -> Result<Config, CliError> {
    let built = built();
    let store_override = config::store_override(store.map(str::to_owned), std::env::var("SEMEL_STORE").ok());
    Ok(config::load(file, &Inputs { built: &built, store_override, env: &|name| std::env::var_os(name) })?)
}

fn load_of(file: &FileOnly) -> Result<Config, CliError> {
    load(&file.file, file.store.store.as_deref())
}

/// The author's own tables, as files of this store.
fn setups(config: &Config, kind: StoreKind) -> Result<Vec<Setup>, CliError> {
    let setup = |file: &SqlFile| {
        let path = file.resolve(kind).map_err(|error| CliError::Use(error.to_string()))?;
        let sql = file.read(kind).map_err(|error| CliError::Use(error.to_string()))?;
        // Named as the configuration names it: the same file is the same setup from whatever directory it is run.
        let base = config.file.parent().unwrap_or(Path::new(""));
        let name = path.strip_prefix(base).unwrap_or(&path).display().to_string();
        Ok(Setup { name, sql })
    };
    config.setup.iter().map(setup).collect()
}

/// The author's statements of one handler.
fn statements<S: SqlStore>(work: &Work) -> Result<S::Statements, CliError> {
    let Work::Sql(steps) = work else {
        return Err(CliError::Use("this version of semel has SQL handlers only".to_owned()));
    };
    let texts = steps.iter().map(|step| match step {
        SqlStep::Text(text) => Ok(text.clone()),
        SqlStep::File(file) => file.read(S::KIND).map_err(|error| CliError::Use(error.to_string())),
    });
    Ok(S::statements(texts.collect::<Result<_, _>>()?))
}

/// What the database says against the handlers' SQL. A handler that can only fail would defer message after message.
async fn faults_of_sql<S: SqlStore>(store: &S, config: &Config) -> Result<Vec<String>, CliError> {
    let mut faults = Vec::new();
    for consumer in &config.consumers {
        for handler in &consumer.handlers {
            let kind = handler.kind.as_deref().unwrap_or("*");
            match store.check(&statements::<S>(&handler.work)?).await {
                Ok(()) => {}
                Err(error) if error.trouble == Trouble::Unreachable => return Err(error.into()),
                Err(error) => faults.push(format!("consumer.{}.on.{kind:?}: {error}", consumer.name)),
            }
        }
    }
    Ok(faults)
}

/// For verbs that look at what `run` left: the tables must be there already.
async fn existing<S: Store>(semel: &Semel<S>) -> Result<semel::Guest<S>, CliError> {
    use semel::Records;
    let mut lane = semel.lane().await?;
    lane.check_schema().await?;
    Ok(lane)
}
