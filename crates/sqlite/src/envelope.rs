//! The envelope in its columns: exactly as it came, whatever it holds.
//!
//! Headers and properties are JSON text, in which U+0000 is escaped; the body is a blob.

use crate::row::{sixteen, unreadable};
use semel_core::{Cut, Envelope, Timestamp};
use serde_json::{Map, Value};
use sqlx::Row;
use sqlx::sqlite::SqliteRow;

pub(crate) fn headers(envelope: &Envelope) -> Value {
    envelope.headers.iter().map(|(name, value)| Value::from(vec![name.as_str(), value.as_str()])).collect()
}

/// The broker's own properties; those that it did not set are left out.
pub(crate) fn properties(envelope: &Envelope) -> Value {
    let Envelope { id, kind, key, time, correlation_id, causation_id, content_type, headers: _, body: _, cut: _, coordinates } = envelope;
    let texts = [
        ("id", id),
        ("kind", kind),
        ("key", key),
        ("correlation_id", correlation_id),
        ("causation_id", causation_id),
        ("content_type", content_type),
        ("coordinates", coordinates),
    ];
    let texts = texts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), Value::from(text.as_deref()?))));
    let time = time.map(|time| ("time".to_owned(), Value::from(time.as_millis())));
    Value::Object(texts.chain(time).collect())
}

/// The length of a whole body of which only the beginning is kept.
pub(crate) fn cut_length(envelope: &Envelope) -> Option<i64> {
    envelope.cut.as_ref().map(|cut| i64::try_from(cut.length).unwrap_or(i64::MAX))
}

/// The columns `headers`, `body`, `body_length`, `body_digest` and `properties`.
pub(crate) fn read(row: &SqliteRow) -> sqlx::Result<Envelope> {
    let headers: Vec<(String, String)> = parse(row, "headers")?;
    let mut properties: Map<String, Value> = parse(row, "properties")?;
    let mut text = |name: &str| match properties.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let cut = match (row.try_get::<Option<i64>, _>("body_length")?, row.try_get::<Option<Vec<u8>>, _>("body_digest")?) {
        (Some(length), Some(digest)) => Some(Cut { length: length.max(0).unsigned_abs(), digest: sixteen(digest)? }),
        _ => None,
    };
    Ok(Envelope {
        id: text("id"),
        kind: text("kind"),
        key: text("key"),
        correlation_id: text("correlation_id"),
        causation_id: text("causation_id"),
        content_type: text("content_type"),
        coordinates: text("coordinates"),
        time: properties.get("time").and_then(Value::as_i64).map(Timestamp::from_millis),
        headers,
        body: row.try_get("body")?,
        cut,
    })
}

fn parse<T: serde::de::DeserializeOwned>(row: &SqliteRow, column: &str) -> sqlx::Result<T> {
    let text: String = row.try_get(column)?;
    serde_json::from_str(&text).map_err(|error| unreadable(format!("the column {column}: {error}")))
}
