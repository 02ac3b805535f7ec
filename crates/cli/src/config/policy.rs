//! What happens to messages that are no plain new ones: four policies of a consumer.

use super::tree::Table;

/// What happens to a message whose key waits behind a deferred one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnDefer {
    /// It waits too: the order of the key stands.
    Hold,
    /// It passes.
    Pass,
}

/// What happens to a message whose id is known with other content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnConflict {
    /// It is kept as a dead letter.
    DeadLetter,
    /// It is counted and acknowledged.
    Ignore,
}

/// What happens to a message without a handler for its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnUnknownKind {
    /// It is kept as a dead letter.
    DeadLetter,
    /// It is counted and acknowledged, without a claim.
    Ignore,
}

/// What happens to a message that is too old, or from the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnStale {
    /// It is kept as a dead letter.
    DeadLetter,
    /// It is processed, though it may be a duplicate.
    Process,
}

/// The policies of one consumer.
pub(super) struct Policies {
    pub(super) on_defer: OnDefer,
    pub(super) on_conflict: OnConflict,
    pub(super) on_unknown_kind: OnUnknownKind,
    pub(super) on_stale: OnStale,
}

impl Policies {
    pub(super) fn read(table: &Table<'_>) -> Self {
        let conflict = [("dead-letter", OnConflict::DeadLetter), ("ignore", OnConflict::Ignore)];
        let unknown = [("dead-letter", OnUnknownKind::DeadLetter), ("ignore", OnUnknownKind::Ignore)];
        let stale = [("dead-letter", OnStale::DeadLetter), ("process", OnStale::Process)];
        Self {
            on_defer: on_defer(table),
            on_conflict: table.read("on_conflict", |node| node.choice(&conflict)).unwrap_or(OnConflict::DeadLetter),
            on_unknown_kind: table
                .read("on_unknown_kind", |node| node.choice(&unknown))
                .unwrap_or(OnUnknownKind::DeadLetter),
            on_stale: table.read("on_stale", |node| node.choice(&stale)).unwrap_or(OnStale::DeadLetter),
        }
    }
}

fn on_defer(table: &Table<'_>) -> OnDefer {
    let has_key = table.has("key");
    let given =
        table.read("on_defer", |node| match node.choice(&[("hold", OnDefer::Hold), ("pass", OnDefer::Pass)])? {
            OnDefer::Hold if !has_key => {
                Err("\"hold\" keeps the order of a key, and this consumer has no key; add one, such as \
                                          key = \"body:/account\", or remove this line"
                    .into())
            }
            policy => Ok(policy),
        });
    given.unwrap_or(if has_key { OnDefer::Hold } else { OnDefer::Pass })
}
