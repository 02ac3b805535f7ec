//! CloudEvents 1.0 in both JSON modes: *binary* (attributes in headers, data in the body) and *structured* (all of it one JSON object).

use crate::json;
use crate::message::Envelope;
use crate::time::Timestamp;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The attributes that semel uses. `source` and `id` together are unique (CloudEvents 1.0, §3.1.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) source: String,
    pub(crate) kind: String,
    pub(crate) key: Option<String>,
    pub(crate) time: Option<Timestamp>,
}

const STRUCTURED: &str = "application/cloudevents+json";
/// How brokers carry an attribute in binary mode: HTTP and NATS, Kafka, AMQP 1.0.
const PREFIXES: [&str; 4] = ["ce-", "ce_", "cloudEvents:", "cloudEvents_"];

pub(crate) fn is_structured(envelope: &Envelope) -> bool {
    let said = envelope.content_type.as_deref().or_else(|| envelope.header("content-type"));
    said.is_some_and(|media| media.trim_start().to_ascii_lowercase().starts_with(STRUCTURED))
}

/// Reads the event, and in structured mode unwraps its data into the body. `None`: there are no CloudEvents attributes.
pub(crate) fn read(envelope: &mut Envelope) -> Result<Option<Event>, String> {
    let binary = attribute(envelope, "specversion").is_some();
    match (is_structured(envelope), binary) {
        (false, true) => Ok(from_headers(envelope)),
        _ => from_body(envelope),
    }
}

fn attribute<'a>(envelope: &'a Envelope, name: &str) -> Option<&'a str> {
    PREFIXES.iter().find_map(|prefix| envelope.header(&format!("{prefix}{name}")))
}

fn from_headers(envelope: &Envelope) -> Option<Event> {
    let text = |name| attribute(envelope, name).map(str::to_owned);
    Some(Event {
        id: text("id")?,
        source: text("source")?,
        kind: text("type").unwrap_or_default(),
        key: text("partitionkey"),
        time: attribute(envelope, "time").and_then(Timestamp::parse),
    })
}

fn from_body(envelope: &mut Envelope) -> Result<Option<Event>, String> {
    let json = json::parse(&envelope.body)?;
    let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::to_owned);
    let (Some(_), Some(id), Some(source)) = (text("specversion"), text("id"), text("source")) else {
        return Ok(None);
    };
    let event = Event {
        id,
        source,
        kind: text("type").unwrap_or_default(),
        key: text("partitionkey"),
        time: text("time").as_deref().and_then(Timestamp::parse),
    };
    let data = data_of(&envelope.body, &json)?;
    envelope.content_type = text("datacontenttype").or_else(|| Some("application/json".to_owned()));
    envelope.correlation_id = text("correlationid").or(envelope.correlation_id.take());
    envelope.causation_id = text("causationid").or(envelope.causation_id.take());
    envelope.body = data;
    Ok(Some(event))
}

/// The data's own bytes, not a serialisation of them: the fingerprint is of what the producer sent.
fn data_of(body: &[u8], json: &Value) -> Result<Vec<u8>, String> {
    #[derive(serde::Deserialize)]
    struct Data<'a> {
        #[serde(borrow)]
        data: Option<&'a serde_json::value::RawValue>,
    }
    if let Some(encoded) = json.get("data_base64").and_then(Value::as_str) {
        return STANDARD.decode(encoded).map_err(|_| "data_base64 of the CloudEvent is not base64".to_owned());
    }
    let data: Data<'_> =
        serde_json::from_slice(body).map_err(|error| format!("the CloudEvent cannot be read: {error}"))?;
    Ok(data.data.map(|data| data.get().as_bytes().to_vec()).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::{Identity, Pick};

    fn events() -> Identity {
        let by = || Some(Pick::CloudEvents);
        Identity { id: Pick::CloudEvents, kind: Pick::CloudEvents, key: by(), time: by(), ..Identity::default() }
    }

    #[test]
    fn both_modes_give_the_same_message() {
        let structured = r#"{"specversion":"1.0","id":"7","source":"/shop","type":"paid","time":"2026-01-02T03:04:05Z",
            "partitionkey":"k","data":{ "amount": 1.50 }}"#;
        let structured = Envelope { body: structured.into(), ..Envelope::default() };
        let headers = [
            ("ce_specversion", "1.0"),
            ("ce_id", "7"),
            ("ce_source", "/shop"),
            ("ce_type", "paid"),
            ("ce_time", "2026-01-02T03:04:05Z"),
            ("ce_partitionkey", "k"),
        ];
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let binary = Envelope { headers, body: r#"{ "amount": 1.50 }"#.into(), ..Envelope::default() };
        let (a, b) = (events().identify(structured).unwrap(), events().identify(binary).unwrap());
        assert_eq!((a.id(), a.kind(), a.key(), a.time()), ("5:/shop1:7", "paid", Some("k"), b.time()));
        assert_eq!((a.id(), a.body(), a.fingerprint()), (b.id(), b.body(), b.fingerprint()));
    }

    #[test]
    fn binary_data_and_what_is_no_event() {
        let with = |body: &str| events().identify(Envelope { body: body.into(), ..Envelope::default() });
        let event = with(r#"{"specversion":"1.0","id":"1","source":"s","type":"t","data_base64":"AAH/"}"#).unwrap();
        assert_eq!(event.body(), [0, 1, 255]);
        assert_eq!(with(r#"{"id":"1"}"#).unwrap_err().reason, crate::Reason::MissingId);
        let bad = r#"{"specversion":"1.0","id":"1","source":"s","data_base64":"?"}"#;
        assert_eq!(with(bad).unwrap_err().reason, crate::Reason::Undecodable);
    }
}
