//! From the configuration to core's settings. Every field is named on both sides, so that a new one cannot be forgotten.

use crate::config::{self, ConsumerConfig};
use semel::{FingerprintOf, Identity, OnConflict, OnStale, OnUnknownKind, Pick, RetryPlan, Settings};
use std::time::Duration;

/// What the command line adds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Asked {
    pub(crate) until_idle: Option<Duration>,
    pub(crate) from_start: bool,
    pub(crate) no_brake: bool,
}

pub(crate) fn settings(consumer: &ConsumerConfig, asked: Asked) -> Settings {
    Settings {
        identity: identity(consumer),
        lanes: consumer.lanes,
        max_batch: consumer.max_batch,
        timeout: consumer.timeout,
        window: consumer.window,
        retry: RetryPlan { immediate: consumer.retry.immediate, deferred: consumer.retry.deferred.clone() },
        hold: hold(consumer),
        on_conflict: match consumer.on_conflict {
            config::OnConflict::DeadLetter => OnConflict::DeadLetter,
            config::OnConflict::Ignore => OnConflict::Ignore,
        },
        on_unknown_kind: match consumer.on_unknown_kind {
            config::OnUnknownKind::DeadLetter => OnUnknownKind::DeadLetter,
            config::OnUnknownKind::Ignore => OnUnknownKind::Ignore,
        },
        on_stale: match consumer.on_stale {
            config::OnStale::DeadLetter => OnStale::DeadLetter,
            config::OnStale::Process => OnStale::Process,
        },
        prefetch: consumer.prefetch,
        grace: consumer.grace,
        max_crashes: consumer.max_crashes,
        brake: !asked.no_brake,
        until_idle: asked.until_idle,
        give_up: None,
        from_start: asked.from_start,
        sweep: true,
    }
}

pub(crate) fn hold(consumer: &ConsumerConfig) -> bool {
    consumer.on_defer == config::OnDefer::Hold
}

pub(crate) fn identity(consumer: &ConsumerConfig) -> Identity {
    Identity {
        id: pick(&consumer.id),
        kind: pick(&consumer.kind),
        key: consumer.key.as_ref().map(pick),
        time: consumer.time.as_ref().map(pick),
        fingerprint: match &consumer.fingerprint {
            config::Fingerprint::Body => FingerprintOf::Body,
            config::Fingerprint::None => FingerprintOf::Nothing,
            config::Fingerprint::Pointers(pointers) => {
                FingerprintOf::Values(pointers.iter().map(|pointer| pointer.as_str().to_owned()).collect())
            }
        },
        // SQL sees the body as JSON, so it must be JSON that every database reads alike.
        json: true,
        body_length_max: consumer.max_body,
    }
}

fn pick(pick: &config::Pick) -> Pick {
    match pick {
        config::Pick::Property => Pick::Property,
        config::Pick::Header(name) => Pick::Header(name.clone()),
        config::Pick::Body(pointer) => Pick::Body(pointer.as_str().to_owned()),
        config::Pick::CloudEvents => Pick::CloudEvents,
        config::Pick::Fixed(text) => Pick::Fixed(text.clone()),
        config::Pick::All(picks) => Pick::Joined(picks.iter().map(self::pick).collect()),
    }
}
