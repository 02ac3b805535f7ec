//! The file that describes what runs: `semel.toml`.
//!
//! [`load`] reads it, checks every key and answers a [`Config`] in which nothing is left to default, or *all* faults at
//! once as [`ConfigErrors`]. A fault names the file, the line and the key, and says what would be right. No fault, and
//! no `Debug` or `Display` of anything here, shows an address with its password, a secret or a line of the file.
//!
//! ```toml
//! store = "sqlite:tea-shop.db"
//!
//! [consumer.payments]
//! from = { file = "payments.jsonl" }
//! id = "body:/payment_id"
//! kind = "body:/type"
//!
//! [consumer.payments.on."payment.requested"]
//! sql = "insert into ledger (payment_id) select id from messages"
//! ```
//!
//! Rules that hold for the whole file:
//! - Paths are relative to the directory of the file.
//! - `${NAME}` stands for an environment variable in addresses (the store, the key that names a transport, `endpoint`,
//!   `address`, `post`) and in `secret`; `$${` is a plain `${`. It is not looked at in SQL, and refused in names.
//! - Durations are `"250ms"`, `"30s"`, `"5m"`, `"1h"`, `"7d"` or sums with the largest unit first; sizes are `"64KiB"`,
//!   `"1MB"` or bytes.
//! - Unknown keys are faults, and so are keys for parts that were not [`Built`].

mod built;
mod consumer;
mod context;
mod destination;
mod duration;
mod env;
mod error;
mod handler;
mod identity;
mod pick;
mod pointer;
mod policy;
mod read;
mod redact;
mod retry;
mod script;
mod settings;
mod size;
mod source;
mod store;
mod suggest;
#[cfg(test)]
mod tests;
mod text;
mod transport;
mod tree;

use std::path::{Path, PathBuf};

#[allow(unused_imports, reason = "the face of this module; not every type in it is named elsewhere yet")]
pub(crate) use self::{
    built::Built,
    consumer::ConsumerConfig,
    destination::{Destination, Relay, To},
    env::Lookup,
    error::{ConfigError, ConfigErrors},
    handler::{BodyForm, HandlerConfig, SqlStep, Work},
    identity::Fingerprint,
    pick::Pick,
    pointer::Pointer,
    policy::{OnConflict, OnDefer, OnStale, OnUnknownKind},
    redact::{Address, Secret},
    retry::Retry,
    script::SqlFile,
    source::{From, Subscribed, Verify},
    store::{StoreAddress, StoreAddressError, StoreKind},
};

use self::context::Context;
use self::tree::{Node, Parsed, Table};

/// A minimal file, for those who have none.
pub(crate) const EXAMPLE: &str = r#"store = "sqlite:app.db"

[consumer.payments]
from = { file = "payments.jsonl" }
id = "body:/payment_id"

[consumer.payments.on."*"]  # the table is your own: setup = ["schema.sql"] at the top makes it
sql = "insert into seen (id) select id from messages"
"#;

/// What a file is read with.
pub(crate) struct Inputs<'i> {
    /// The parts that this program has.
    pub(crate) built: &'i Built,
    /// The address that wins over the file's, with paths relative to the working directory: see [`store_override`].
    pub(crate) store_override: Option<String>,
    /// The environment: `&|name| std::env::var_os(name)` in the program.
    pub(crate) env: &'i Lookup<'i>,
}

/// A configuration without faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// The file it was read from, as it was named.
    pub(crate) file: PathBuf,
    /// Where the store is.
    pub(crate) store: StoreAddress,
    /// The author's own tables, to be made in this order.
    pub(crate) setup: Vec<SqlFile>,
    /// The consumers, in the order of the file. Empty only in a file that relays or sends.
    pub(crate) consumers: Vec<ConsumerConfig>,
    /// Whether to relay, and what.
    pub(crate) relay: Option<Relay>,
    /// Where messages go to, in the order of the file.
    pub(crate) destinations: Vec<Destination>,
}

impl Config {
    /// The consumer of a name.
    pub(crate) fn consumer(&self, name: &str) -> Option<&ConsumerConfig> {
        self.consumers.iter().find(|consumer| consumer.name == name)
    }

    /// The destination of a name.
    #[allow(dead_code, reason = "for the relay and `send`, which do not exist yet")]
    pub(crate) fn destination(&self, name: &str) -> Option<&Destination> {
        self.destinations.iter().find(|destination| destination.name == name)
    }
}

/// The store's address from outside of the file: `--store` wins over `SEMEL_STORE`, and an empty variable is none.
pub(crate) fn store_override(flag: Option<String>, variable: Option<String>) -> Option<String> {
    flag.or_else(|| variable.filter(|text| !text.is_empty()))
}

/// Reads a file.
///
/// # Errors
///
/// All faults of the file, or the one that stands before them: it is not there, no file, not allowed, not UTF-8, or not
/// TOML.
pub(crate) fn load(file: &Path, inputs: &Inputs<'_>) -> Result<Config, ConfigErrors> {
    let text = read::text(file)?;
    parse(&text, file, inputs)
}

/// Reads the text of a file that lies at `file`; files of SQL that it names are looked for.
///
/// # Errors
///
/// All faults of the text.
pub(crate) fn parse(text: &str, file: &Path, inputs: &Inputs<'_>) -> Result<Config, ConfigErrors> {
    let tree = read::tree(file, text)?;
    if tree.get_ref().is_empty() {
        return Err(ConfigError::of_file(file, format!("is empty; a small one to begin with:\n\n{EXAMPLE}")).into());
    }
    let context = Context::new(file, text, inputs);
    let config = root(&Table::root(&context, tree.get_ref()));
    let errors = context.into_errors();
    match config {
        Some(config) if errors.is_empty() => Ok(config),
        _ => Err(ConfigErrors::new(errors)),
    }
}

const KEYS: &[&str] = &["store", "setup", "consumer", "relay", "destination"];

fn root(table: &Table<'_>) -> Option<Config> {
    table.refuse_unknown(KEYS);
    let context = table.context;
    let store = store(table);
    if let Some(store) = &store {
        context.set_store_kind(store.kind());
    }
    let setup = table.node("setup").map_or(Some(Vec::new()), |node| script::setup(&node));
    let consumers = consumers(table);
    let destinations = part(table, "destination", destination::destinations, Vec::new());
    let names: Vec<&str> = match &destinations {
        Some(destinations) => destinations.iter().map(|destination| destination.name.as_str()).collect(),
        None => Vec::new(),
    };
    let relay = part(table, "relay", |node| destination::relay(node, &names).map(Some), None);

    Some(Config {
        file: context.file().to_owned(),
        store: store?,
        setup: setup?,
        consumers: consumers?,
        relay: relay?,
        destinations: destinations?,
    })
}

/// A table at the top that needs a part of semel of the same name.
fn part<T>(table: &Table<'_>, key: &str, read: impl FnOnce(&Node<'_>) -> Option<T>, absent: T) -> Option<T> {
    let Some(node) = table.node(key) else { return Some(absent) };
    match table.context.built().require(key) {
        Ok(()) => read(&node),
        Err(lack) => {
            node.fail(lack);
            None
        }
    }
}

fn consumers(table: &Table<'_>) -> Option<Vec<ConsumerConfig>> {
    if let Some(node) = table.node("consumer").filter(|node| !node.is_empty_table()) {
        return consumer::consumers(&node);
    }
    if !table.has("relay") && !table.has("destination") {
        let message = format!("there is no consumer, so nothing would run; a small file with one:\n\n{EXAMPLE}");
        table.fail_missing("consumer", message);
    }
    Some(Vec::new())
}

fn store(table: &Table<'_>) -> Option<StoreAddress> {
    let check = |address: StoreAddress| table.context.built().require(address.kind().name()).map(|()| address);
    if let Some(address) = &table.context.inputs().store_override {
        let parsed: Parsed<_> =
            StoreAddress::parse(address, Path::new("")).map_err(|error| error.to_string()).and_then(check);
        return parsed.map_err(|why| table.context.fail(None, "--store or SEMEL_STORE", why)).ok();
    }
    table.require("store", "store = \"sqlite:app.db\", or give --store or SEMEL_STORE", |node| {
        let address = text::expanded(node, "the address of a store such as \"sqlite:app.db\" or \"${DATABASE_URL}\"")?;
        StoreAddress::parse(&address, table.context.base()).map_err(|error| error.to_string()).and_then(check)
    })
}
