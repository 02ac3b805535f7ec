//! `[consumer.NAME]`: one consumer.

use std::time::Duration;

use super::handler::{HandlerConfig, handlers};
use super::identity::{Fingerprint, Places};
use super::pick::Pick;
use super::policy::{OnConflict, OnDefer, OnStale, OnUnknownKind, Policies};
use super::retry::Retry;
use super::settings::Settings;
use super::source::{From, Origin};
use super::text;
use super::tree::{Node, Table};

/// One consumer with every setting, given or default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConsumerConfig {
    /// The scope of its claims.
    pub(crate) name: String,
    /// Where its messages come from; `None` where they come from local delivery only.
    pub(crate) from: Option<From>,
    /// Where the producer's message id is.
    pub(crate) id: Pick,
    /// Where the kind is.
    pub(crate) kind: Pick,
    /// Where the ordering key is; `None` for no order.
    pub(crate) key: Option<Pick>,
    /// Where the producer's time is; `None` where only a time inside the id tells the age.
    pub(crate) time: Option<Pick>,
    /// What tells a conflict from a duplicate.
    pub(crate) fingerprint: Fingerprint,
    /// How many lanes work at the same time: 1 to 256, default 4.
    pub(crate) lanes: usize,
    /// How many messages share a transaction at most: 1 to 10,000, default 100.
    pub(crate) max_batch: usize,
    /// How long a handler may run: 1 ms to 7 days, default 30 s.
    pub(crate) timeout: Duration,
    /// How long a processed id is remembered: at least 1 s, default 7 days.
    pub(crate) window: Duration,
    /// The plan for failing messages.
    pub(crate) retry: Retry,
    /// What happens behind a deferred message of the same key. `Pass` where there is no key, else `Hold` by default.
    pub(crate) on_defer: OnDefer,
    /// What happens to other content under a known id.
    pub(crate) on_conflict: OnConflict,
    /// What happens to kinds without a handler.
    pub(crate) on_unknown_kind: OnUnknownKind,
    /// What happens to messages that are too old to be told from duplicates, or from the future.
    pub(crate) on_stale: OnStale,
    /// How many deliveries are held at most: from `max_batch` on, default `lanes` × `max_batch`.
    pub(crate) prefetch: usize,
    /// How long a shutdown waits for what is in flight; default 30 s.
    pub(crate) grace: Duration,
    /// The largest body in bytes: up to 256 MiB, default 1 MiB.
    pub(crate) max_body: u64,
    /// After how many crashes of the process a message is set aside: 1 to 100, default 3.
    pub(crate) max_crashes: u32,
    /// What is done with the messages; at least one, in the order of the file.
    pub(crate) handlers: Vec<HandlerConfig>,
}

#[rustfmt::skip]
const KEYS: &[&str] = &[
    "from", "id", "kind", "key", "time", "fingerprint",
    "lanes", "max_batch", "timeout", "window", "retry",
    "on_defer", "on_conflict", "on_unknown_kind", "on_stale",
    "prefetch", "grace", "max_body", "max_crashes", "on",
];

/// All consumers, in the order of the file.
pub(super) fn consumers(node: &Node<'_>) -> Option<Vec<ConsumerConfig>> {
    let table = node.table("tables such as [consumer.payments]")?;
    let all: Vec<Option<ConsumerConfig>> = table.nodes().iter().map(|(name, node)| consumer(name, node)).collect();
    let all: Vec<ConsumerConfig> = all.into_iter().collect::<Option<_>>()?;
    let mut readers = all.iter().filter(|consumer| consumer.from == Some(From::Stdin));
    if let (Some(first), Some(second)) = (readers.next(), readers.next()) {
        let (first, second) = (&first.name, &second.name);
        node.fail(format!(
            "{first} and {second} both read stdin, and a line can go to one only; give one of them a file"
        ));
    }
    Some(all)
}

fn consumer(name: &str, node: &Node<'_>) -> Option<ConsumerConfig> {
    if !text::is_label(name) {
        node.fail(text::label_rule("[consumer.payments]"));
    }
    let whole = text::unquoted_key(name, node, |table| table.has("on") || table.has("from"));
    if let Some(whole) = whole.filter(|whole| whole != name) {
        node.fail(format!("a name with dots is quoted: [consumer.\"{}\"]", whole.escape_debug()));
        return None;
    }
    let table = node.table("a table such as [consumer.payments]")?;
    table.refuse_unknown(KEYS);

    let from = from(&table);
    let handlers = handlers(&table);
    let origin = table.node("from").and_then(|node| Origin::of(&node));
    let places = Places::read(&table, origin, handlers.as_deref());
    let settings = Settings::read(&table);
    let policies = Policies::read(&table);
    let retry = match table.node("retry") {
        None => Some(Retry::default()),
        Some(node) => Retry::parse(&node),
    };

    let places = places?;
    Some(ConsumerConfig {
        name: name.into(),
        from: from?,
        id: places.id,
        kind: places.kind,
        key: places.key,
        time: places.time,
        fingerprint: places.fingerprint,
        lanes: settings.lanes,
        max_batch: settings.max_batch,
        timeout: settings.timeout,
        window: settings.window,
        retry: retry?,
        on_defer: policies.on_defer,
        on_conflict: policies.on_conflict,
        on_unknown_kind: policies.on_unknown_kind,
        on_stale: policies.on_stale,
        prefetch: settings.prefetch,
        grace: settings.grace,
        max_body: settings.max_body,
        max_crashes: settings.max_crashes,
        handlers: handlers?,
    })
}

/// The outer `None` where it is wrong, the inner where it is absent.
fn from(table: &Table<'_>) -> Option<Option<From>> {
    match table.node("from") {
        Some(node) => From::parse(&node).map(Some),
        None => match table.context.built().require("local") {
            Ok(()) => Some(None),
            Err(lack) => {
                let example = "from = { file = \"payments.jsonl\" }";
                table.fail_missing("from", format!("missing, and {lack}; write for example {example}"));
                None
            }
        },
    }
}
