//! What a message is to a consumer: its id, kind, key, time and fingerprint.

use super::handler::HandlerConfig;
use super::pick::{Pick, Purpose, pick};
use super::pointer::Pointer;
use super::source::Origin;
use super::tree::{Node, Table, shown};

/// A fingerprint is taken of at most this many places.
const POINTERS_MAX: usize = 64;

/// What tells other content under a known id (a conflict) from the same content (a duplicate).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fingerprint {
    /// The bytes of the body.
    Body,
    /// These places of the JSON body, for producers that write the same content anew. Never empty.
    Pointers(Vec<Pointer>),
    /// Nothing: the same id is always a duplicate.
    None,
}

/// Where the parts of a message are.
pub(super) struct Places {
    pub(super) id: Pick,
    pub(super) kind: Pick,
    pub(super) key: Option<Pick>,
    pub(super) time: Option<Pick>,
    pub(super) fingerprint: Fingerprint,
}

impl Places {
    /// `origin` is `None` where it is wrong or absent: local delivery has every property.
    pub(super) fn read(table: &Table<'_>, origin: Option<Origin>, handlers: Option<&[HandlerConfig]>) -> Option<Self> {
        let read = |key: &str, purpose| match table.node(key) {
            None => Some(None),
            Some(node) => pick(&node, purpose).map(Some),
        };
        let (id, kind) = (read("id", Purpose::Id), read("kind", Purpose::Kind));
        let (key, time) = (read("key", Purpose::Key), read("time", Purpose::Time));
        let fingerprint = match table.node("fingerprint") {
            None => Some(Fingerprint::Body),
            Some(node) => fingerprint(&node),
        };
        if let (Some(id), Some(origin)) = (&id, origin) {
            check_id(table, id.as_ref(), origin);
        }
        if let (Some(kind), Some(handlers)) = (&kind, handlers) {
            check_kind(table, kind.as_ref(), origin, handlers);
        }
        if origin.is_some_and(Origin::is_lines) {
            for (name, pick) in [("kind", &kind), ("key", &key), ("time", &time)] {
                check_lines(table, name, pick.as_ref().and_then(Option::as_ref));
            }
        }
        Some(Self {
            id: id?.unwrap_or(Pick::Property),
            kind: kind?.unwrap_or(Pick::Property),
            key: key?,
            time: time?,
            fingerprint: fingerprint?,
        })
    }
}

fn fingerprint(node: &Node<'_>) -> Option<Fingerprint> {
    let expected = "\"body\", \"none\" or a list of JSON pointers such as [\"/account\", \"/amount\"]";
    let Some(items) = node.items() else {
        return node.read(|node| match node.text(expected)? {
            "body" => Ok(Fingerprint::Body),
            "none" => Ok(Fingerprint::None),
            text => Err(format!("expected {expected}, found {}", shown(text))),
        });
    };
    if items.is_empty() || items.len() > POINTERS_MAX {
        node.fail(format!("expected {expected}, of 1 to {POINTERS_MAX} pointers, found {}", items.len()));
        return None;
    }
    let pointers: Vec<Option<Pointer>> = items
        .iter()
        .map(|item| {
            item.read(|item| {
                let text = item.text("a JSON pointer such as \"/account\"")?;
                Pointer::parse(text).map_err(|rule| {
                    format!("expected a JSON pointer such as \"/account\", found {}; {rule}", shown(text))
                })
            })
        })
        .collect();
    pointers.into_iter().collect::<Option<_>>().map(Fingerprint::Pointers)
}

/// The id must come from the producer: an id that the broker makes anew for every copy would make no copy a duplicate.
fn check_id(table: &Table<'_>, id: Option<&Pick>, origin: Origin) {
    let Some((why, example)) = origin.lacks_id() else { return };
    let remedy = format!("{why}: say where the producer's id is, such as id = \"{example}\"");
    match id {
        None => table.fail_missing("id", format!("missing; {remedy}")),
        Some(pick) if pick.any(|part| *part == Pick::Property) => {
            table.fail_at("id", format!("\"property\" finds nothing; {remedy}"));
        }
        Some(_) if origin.is_lines() => check_lines(table, "id", id),
        Some(_) => {}
    }
}

/// A kind that no message can have leaves every message without a handler.
fn check_kind(table: &Table<'_>, kind: Option<&Pick>, origin: Option<Origin>, handlers: &[HandlerConfig]) {
    let mut own_kinds = handlers.iter().map(|handler| handler.kind.as_deref());
    match kind {
        Some(Pick::Fixed(fixed)) if !own_kinds.any(|own| own.is_none_or(|own| own == fixed)) => {
            table.fail_at(
                "kind",
                "no handler has this kind, so nothing could be processed; name it in on.\"…\", or use on.\"*\"",
            );
        }
        None if origin.is_some_and(Origin::is_lines) && own_kinds.all(|own| own.is_some()) => {
            table.fail_missing(
                "kind",
                "missing; a line has no kind beside its text, so that no handler would find its messages: \
                 write for example kind = \"body:/type\", or use on.\"*\"",
            );
        }
        _ => {}
    }
}

/// Lines have no properties and no headers.
fn check_lines(table: &Table<'_>, key: &str, pick: Option<&Pick>) {
    let is_outside = |part: &Pick| matches!(part, Pick::Property | Pick::Header(_));
    if pick.is_some_and(|pick| pick.any(is_outside)) {
        table.fail_at(
            key,
            "a line has no properties and no headers; name a place in its JSON, \
                              such as \"body:/payment_id\", or \"cloudevents\"",
        );
    }
}
