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
    let Envelope {
        id,
        kind,
        key,
        time,
        correlation_id,
        causation_id,
        content_type,
        headers: _,
        body: _,
        cut: _,
        coordinates,
    } = envelope;
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
    let headers: Vec<(String, String)> = serde_json::from_str(text(row, "headers")?).map_err(not_json("headers"))?;
    let mut properties: Map<String, Value> =
        serde_json::from_str(text(row, "properties")?).map_err(not_json("properties"))?;
    let mut take = |name: &str| match properties.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let cut = match (row.try_get::<Option<i64>, _>("body_length")?, row.try_get::<Option<Vec<u8>>, _>("body_digest")?) {
        (Some(length), Some(digest)) => Some(Cut { length: length.max(0).unsigned_abs(), digest: sixteen(digest)? }),
        _ => None,
    };
    Ok(Envelope {
        id: take("id"),
        kind: take("kind"),
        key: take("key"),
        correlation_id: take("correlation_id"),
        causation_id: take("causation_id"),
        content_type: take("content_type"),
        coordinates: take("coordinates"),
        time: properties.get("time").and_then(Value::as_i64).map(Timestamp::from_millis),
        headers,
        body: row.try_get("body")?,
        cut,
    })
}

fn text<'r>(row: &'r SqliteRow, column: &str) -> sqlx::Result<&'r str> {
    row.try_get(column)
}

fn not_json(column: &str) -> impl Fn(serde_json::Error) -> sqlx::Error + '_ {
    move |error| unreadable(format!("the column {column}: {error}"))
}
