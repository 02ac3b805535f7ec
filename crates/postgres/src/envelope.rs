//! What a broker delivered, as columns: exactly, U+0000 included, which PostgreSQL's text refuses and JSON writes as an
//! escape.

use semel_core::{Cut, Envelope, StoreError, Timestamp, Trouble};
use serde_json::{Map, Value};
use sqlx::Row;
use sqlx::postgres::PgRow;

/// The envelopes of several rows, one array a column.
#[derive(Default)]
pub(crate) struct Columns<'a> {
    pub(crate) properties: Vec<String>,
    pub(crate) headers: Vec<String>,
    pub(crate) body: Vec<&'a [u8]>,
    pub(crate) body_length: Vec<Option<i64>>,
    pub(crate) body_digest: Vec<Option<&'a [u8]>>,
}

impl<'a> FromIterator<&'a Envelope> for Columns<'a> {
    fn from_iter<I: IntoIterator<Item = &'a Envelope>>(envelopes: I) -> Self {
        let mut columns = Columns::default();
        for envelope in envelopes {
            columns.properties.push(properties(envelope));
            columns.headers.push(
                Value::from_iter(envelope.headers.iter().map(|(name, value)| vec![&**name, &**value])).to_string(),
            );
            columns.body.push(&envelope.body);
            columns.body_length.push(envelope.cut.as_ref().map(|cut| i64::try_from(cut.length).unwrap_or(i64::MAX)));
            columns.body_digest.push(envelope.cut.as_ref().map(|cut| &cut.digest[..]));
        }
        columns
    }
}

const TEXTS: [&str; 7] = ["id", "kind", "key", "correlation_id", "causation_id", "content_type", "coordinates"];

fn properties(envelope: &Envelope) -> String {
    let Envelope { id, kind, key, correlation_id, causation_id, content_type, coordinates, time, .. } = envelope;
    let texts = [id, kind, key, correlation_id, causation_id, content_type, coordinates];
    let mut all: Map<String, Value> = TEXTS
        .into_iter()
        .zip(texts)
        .filter_map(|(name, text)| text.as_ref().map(|text| (name.to_owned(), Value::from(&**text))))
        .collect();
    all.extend(time.map(|time| ("time".to_owned(), Value::from(time.as_millis()))));
    Value::Object(all).to_string()
}

/// Reads an envelope from a row with the columns of [`Columns`].
pub(crate) fn read(row: &PgRow) -> Result<Envelope, StoreError> {
    let get = |error| crate::error::store_error("read a stored message", error);
    let properties: String = row.try_get("properties").map_err(get)?;
    let headers: String = row.try_get("headers").map_err(get)?;
    let length: Option<i64> = row.try_get("body_length").map_err(get)?;
    let digest: Option<Vec<u8>> = row.try_get("body_digest").map_err(get)?;
    let mut properties: Map<String, Value> = serde_json::from_str(&properties).map_err(foreign)?;
    let mut text = |name: &str| match properties.remove(name) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    };
    let [id, kind, key, correlation_id, causation_id, content_type, coordinates] = TEXTS.map(&mut text);
    Ok(Envelope {
        id,
        kind,
        key,
        time: properties.get("time").and_then(Value::as_i64).map(Timestamp::from_millis),
        correlation_id,
        causation_id,
        content_type,
        headers: serde_json::from_str(&headers).map_err(foreign)?,
        body: row.try_get("body").map_err(get)?,
        cut: length.zip(digest).and_then(|(length, digest)| {
            Some(Cut { length: length.max(0).unsigned_abs(), digest: digest.try_into().ok()? })
        }),
        coordinates,
    })
}

fn foreign(error: serde_json::Error) -> StoreError {
    StoreError {
        trouble: Trouble::Other,
        message: "a stored message has properties or headers that semel did not write: somebody changed semel's tables by hand".into(),
        source: Some(Box::new(error)),
    }
}
