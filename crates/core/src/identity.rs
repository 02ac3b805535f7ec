//! Which message is this? From the envelope to an [`Incoming`] with an id that is the same on every delivery, or a refusal (law 9).

use crate::cloudevents::{self, Event};
use crate::dead_letter::Reason;
use crate::fingerprint::{Fingerprint, FingerprintOf};
use crate::json;
use crate::message::Envelope;
use crate::time::Timestamp;
use serde_json::Value;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest message id, in bytes.
pub const ID_LENGTH_MAX: usize = 255;
/// The years 1 to 9999, in milliseconds since 1970.
const TIMES: std::ops::RangeInclusive<i64> = -62_135_596_800_000..=253_402_300_799_999;
/// Longest kind and key, in bytes.
pub const NAME_LENGTH_MAX: usize = 1024;
/// How much of a body over the limit is kept with its dead letter, in bytes.
pub const CUT_LENGTH: usize = 64 * 1024;

/// Where a value of a message is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pick {
    /// The broker's own property: message id, type, key, timestamp.
    Property,
    /// A header, by its name.
    Header(String),
    /// A value in the JSON body, by its pointer (RFC 6901). A string, or an integer of at most 64 bits.
    Body(String),
    /// The CloudEvents attribute: `source` and `id`, `type`, `partitionkey`, `time`.
    CloudEvents,
    /// Always this value.
    Fixed(String),
    /// Several, joined with the length before each (`5:shop17:1042`), so that ("a", "bc") and ("ab", "c") stay two.
    Joined(Vec<Pick>),
}

/// How a consumer reads its messages.
#[derive(Debug, Clone)]
pub struct Identity {
    /// Where the message id is. Default: the broker's property.
    pub id: Pick,
    /// Where the kind is. Default: the broker's property.
    pub kind: Pick,
    /// Where the ordering key is. Default: none, i.e. no order but that of the lanes.
    pub key: Option<Pick>,
    /// Where the producer's time is: lets a message be too old. An id that is a UUIDv7 or a ULID carries its own.
    pub time: Option<Pick>,
    /// What tells a conflict from a duplicate. Default: the body.
    pub fingerprint: FingerprintOf,
    /// Refuse bodies that are not JSON which every database takes. Default: off; `semel run` with SQL turns it on.
    pub json: bool,
    /// Bodies over this many bytes become dead letters. Default: 1 MiB.
    pub body_length_max: u64,
}

impl Default for Identity {
    fn default() -> Self {
        Identity {
            id: Pick::Property,
            kind: Pick::Property,
            key: Some(Pick::Property),
            time: None,
            fingerprint: FingerprintOf::Body,
            json: false,
            body_length_max: 1024 * 1024,
        }
    }
}

/// A message whose id is known: what is claimed, and what handlers see.
#[derive(Debug, Clone)]
pub struct Incoming {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) key: Option<String>,
    pub(crate) time: Option<Timestamp>,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) attempt: u32,
    pub(crate) envelope: Envelope,
    pub(crate) token: u64,
}

impl Incoming {
    /// A message that was identified before and waited in the inbox.
    pub(crate) fn resumed(waiting: crate::inbox::Waiting) -> Self {
        let crate::inbox::Waiting { id, kind, key, time, fingerprint, attempts, envelope, .. } = waiting;
        Incoming { id, kind, key, time, fingerprint, attempt: attempts + 1, envelope, token: token() }
    }

    /// The message id, as it is claimed.
    pub fn id(&self) -> &str {
        &self.id
    }
    /// The kind, or "" where the producer gave none.
    pub fn kind(&self) -> &str {
        &self.kind
    }
    /// The ordering key.
    pub fn key(&self) -> Option<&str> {
        self.key.as_deref()
    }
    /// The producer's time: the one inside a UUIDv7 or ULID id, else the configured one.
    pub fn time(&self) -> Option<Timestamp> {
        self.time
    }
    /// The first header of that name, without regard to ASCII case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.envelope.header(name)
    }
    /// All headers, in the order of arrival.
    pub fn headers(&self) -> &[(String, String)] {
        &self.envelope.headers
    }
    /// The bytes of the body.
    pub fn body(&self) -> &[u8] {
        &self.envelope.body
    }
    /// How often the message has been tried, this time included: 1 on the first try. Re-runs after a deadlock do not count.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
    /// The envelope as it came, with the broker's properties.
    pub fn envelope(&self) -> &Envelope {
        &self.envelope
    }
    /// What tells this message from another one under its id.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
    pub(crate) fn weight(&self) -> usize {
        self.envelope.body.len()
    }
}

/// A message that nobody can claim: it becomes a dead letter under its coordinates (§4).
#[derive(Debug, Clone)]
pub struct Refused {
    /// Why.
    pub reason: Reason,
    /// What a person should know; never quotes the body.
    pub error: String,
    /// What came.
    pub envelope: Envelope,
    /// Of the whole body, so that two refused messages stay two.
    pub fingerprint: Fingerprint,
}

impl Identity {
    /// Reads `envelope`. Judged in this order: too large, undecodable, missing id, invalid id.
    pub fn identify(&self, mut envelope: Envelope) -> Result<Incoming, Box<Refused>> {
        if let Some(refused) = self.too_large(&mut envelope) {
            return Err(refused(envelope));
        }
        let event = if self.reads_events(&envelope) { cloudevents::read(&mut envelope) } else { Ok(None) };
        let event = match event {
            Ok(event) => event,
            Err(error) => return Err(refuse(Reason::Undecodable, error, envelope)),
        };
        let json = if self.json || self.reads_body() { Some(json::parse(&envelope.body)) } else { None };
        let json = match json {
            Some(Err(error)) => return Err(refuse(Reason::Undecodable, error, envelope)),
            Some(Ok(json)) => Some(json),
            None => None,
        };
        let view = View { envelope: &envelope, json: json.as_ref(), event: event.as_ref() };
        let found = self.find(&view);
        match found {
            Ok((id, kind, key, time, fingerprint)) => {
                let time = time_in(&id).or(time);
                Ok(Incoming { id, kind, key, time, fingerprint, attempt: 1, envelope, token: token() })
            }
            Err((reason, error)) => Err(refuse(reason, error, envelope)),
        }
    }

    #[allow(clippy::type_complexity)]
    fn find(
        &self,
        view: &View<'_>,
    ) -> Result<(String, String, Option<String>, Option<Timestamp>, Fingerprint), (Reason, String)> {
        let id = match view.text(&self.id, Property::Id) {
            Ok(Some(id)) => id,
            Ok(None) => return Err((Reason::MissingId, format!("no message id at {}", name_of(&self.id)))),
            Err(error) => return Err((Reason::InvalidId, error)),
        };
        valid_id(&id).map_err(|error| (Reason::InvalidId, error.to_owned()))?;
        let named = |pick: &Pick, property| match view.text(pick, property) {
            Ok(Some(text)) if text.len() > NAME_LENGTH_MAX || text.contains('\0') => Err((
                Reason::Undecodable,
                format!("the value at {} is over {NAME_LENGTH_MAX} bytes or holds U+0000", name_of(pick)),
            )),
            Ok(text) => Ok(text),
            Err(error) => Err((Reason::Undecodable, error)),
        };
        let kind = named(&self.kind, Property::Kind)?.unwrap_or_default();
        let key = self.key.as_ref().map(|pick| named(pick, Property::Key)).transpose()?.flatten();
        let time = self.time.as_ref().and_then(|pick| view.time(pick));
        // The producer's kind belongs to the fingerprint; a kind that this consumer's settings make up does not, and one in the body is there already.
        let said = match self.kind {
            Pick::Property | Pick::Header(_) | Pick::CloudEvents => Some(&*kind),
            Pick::Fixed(_) | Pick::Body(_) | Pick::Joined(_) => None,
        };
        let fingerprint = self.fingerprint.of(said, &view.envelope.body, view.json);
        Ok((id, kind, key, time, fingerprint))
    }

    fn too_large(&self, envelope: &mut Envelope) -> Option<impl FnOnce(Envelope) -> Box<Refused> + use<>> {
        use crate::fingerprint::BodyDigest;
        use crate::message::Cut;
        let header_bytes: usize = envelope.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        let headers_over = header_bytes > CUT_LENGTH;
        if envelope.cut.is_none() && (envelope.length() > self.body_length_max || headers_over) {
            let mut digest = BodyDigest::default();
            digest.update(&envelope.body);
            envelope.cut = Some(Cut { length: envelope.length(), digest: digest.finish() });
            envelope.body.truncate(CUT_LENGTH);
        }
        if headers_over {
            // Not kept, so not whole.
            envelope.cut.as_mut()?.length += header_bytes as u64;
            envelope.headers.clear();
        }
        let cut = envelope.cut.clone()?;
        let error = match headers_over {
            true => format!("the headers have {header_bytes} bytes; the limit is {CUT_LENGTH}"),
            false => format!("the body has {} bytes; the limit is {} (max_body)", cut.length, self.body_length_max),
        };
        Some(move |envelope| {
            Box::new(Refused {
                reason: Reason::TooLarge,
                error,
                envelope,
                fingerprint: Fingerprint { version: 1, digest: cut.digest },
            })
        })
    }

    fn picks(&self) -> impl Iterator<Item = &Pick> {
        [Some(&self.id), Some(&self.kind), self.key.as_ref(), self.time.as_ref()].into_iter().flatten()
    }

    fn reads_body(&self) -> bool {
        matches!(self.fingerprint, FingerprintOf::Values(_))
            || self.picks().any(|pick| pick.any(&|p| matches!(p, Pick::Body(_))))
    }

    fn reads_events(&self, envelope: &Envelope) -> bool {
        cloudevents::is_structured(envelope) || self.picks().any(|pick| pick.any(&|p| *p == Pick::CloudEvents))
    }
}

impl Pick {
    fn any(&self, test: &dyn Fn(&Pick) -> bool) -> bool {
        match self {
            Pick::Joined(picks) => picks.iter().any(|pick| pick.any(test)),
            pick => test(pick),
        }
    }
}

/// Whether a text can be a message id: 1 to 255 bytes, no NUL. Compared byte by byte, never trimmed, never folded.
pub fn valid_id(id: &str) -> Result<(), &'static str> {
    match id {
        "" => Err("the message id is empty"),
        id if id.len() > ID_LENGTH_MAX => Err("the message id is longer than 255 bytes"),
        id if id.contains('\0') => Err("the message id holds U+0000"),
        _ => Ok(()),
    }
}

/// A number that ties a permit to its delivery within this process.
pub(crate) fn token() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The fingerprint is of all that its producer said and a redelivery repeats (headers may be a broker's), so that two messages stay two.
fn refuse(reason: Reason, error: String, envelope: Envelope) -> Box<Refused> {
    let said = join([envelope.id.as_deref().unwrap_or_default(), envelope.kind.as_deref().unwrap_or_default()]);
    let fingerprint = FingerprintOf::Body.of(Some(&said), &envelope.body, None);
    Box::new(Refused { reason, error, envelope, fingerprint })
}

#[derive(Clone, Copy)]
enum Property {
    Id,
    Kind,
    Key,
}

struct View<'a> {
    envelope: &'a Envelope,
    json: Option<&'a Value>,
    event: Option<&'a Event>,
}

impl View<'_> {
    fn text(&self, pick: &Pick, property: Property) -> Result<Option<String>, String> {
        let found = match (pick, property) {
            (Pick::Fixed(text), _) => Some(text.clone()),
            (Pick::Header(name), _) => self.envelope.header(name).map(str::to_owned),
            (Pick::Property, Property::Id) => self.envelope.id.clone(),
            (Pick::Property, Property::Kind) => self.envelope.kind.clone(),
            (Pick::Property, Property::Key) => self.envelope.key.clone(),
            (Pick::CloudEvents, Property::Id) => self.event.map(|event| join([&*event.source, &*event.id])),
            (Pick::CloudEvents, Property::Kind) => self.event.map(|event| event.kind.clone()),
            (Pick::CloudEvents, Property::Key) => self.event.and_then(|event| event.key.clone()),
            (Pick::Body(pointer), _) => {
                return self.json.and_then(|json| json.pointer(pointer)).map_or(Ok(None), scalar);
            }
            (Pick::Joined(picks), _) => {
                let parts: Option<Vec<String>> =
                    picks.iter().map(|pick| self.text(pick, property)).collect::<Result<_, _>>()?;
                // An empty part names nothing, and so does the whole.
                parts.map(|parts| match parts.iter().any(String::is_empty) {
                    true => String::new(),
                    false => join(parts.iter().map(|part| &**part)),
                })
            }
        };
        Ok(found)
    }

    /// A time that cannot be read, or that no database takes, is no time: the message then cannot be too old.
    fn time(&self, pick: &Pick) -> Option<Timestamp> {
        self.said_time(pick).filter(|time| TIMES.contains(&time.as_millis()))
    }

    fn said_time(&self, pick: &Pick) -> Option<Timestamp> {
        match pick {
            Pick::Property => self.envelope.time,
            Pick::CloudEvents => self.event.and_then(|event| event.time),
            Pick::Body(pointer) => match self.json?.pointer(pointer)? {
                Value::Number(millis) => millis.as_i64().map(Timestamp::from_millis),
                Value::String(text) => Timestamp::parse(text),
                _ => None,
            },
            pick => Timestamp::parse(&self.text(pick, Property::Id).ok()??),
        }
    }
}

/// A string as it is; an integer in decimal. Anything else could be written in two ways, and two ways would be two ids.
fn scalar(value: &Value) -> Result<Option<String>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Number(number) if number.is_i64() || number.is_u64() => Ok(Some(number.to_string())),
        Value::Number(_) => {
            Err("a number that is not a 64-bit integer names nothing surely: send it as a string".into())
        }
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err("it must be a string or an integer".into()),
    }
}

fn join<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    parts.into_iter().map(|part| format!("{}:{part}", part.len())).collect()
}

fn name_of(pick: &Pick) -> String {
    match pick {
        Pick::Property => "the broker's property".into(),
        Pick::Header(name) => format!("header:{name}"),
        Pick::Body(pointer) => format!("body:{pointer}"),
        Pick::CloudEvents => "the CloudEvents attributes".into(),
        Pick::Fixed(_) => "a fixed value".into(),
        Pick::Joined(picks) => picks.iter().map(name_of).collect::<Vec<_>>().join(" + "),
    }
}

/// The time inside a UUIDv7 (RFC 9562) or a ULID.
fn time_in(id: &str) -> Option<Timestamp> {
    match id.len() {
        36 => {
            let uuid = uuid::Uuid::try_parse(id).ok().filter(|uuid| uuid.get_version_num() == 7)?;
            Some(Timestamp::from_millis((uuid.as_u128() >> 80) as i64))
        }
        26 => {
            const CROCKFORD: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
            let digit = |byte: u8| CROCKFORD.iter().position(|c| *c == byte.to_ascii_uppercase());
            id.bytes().skip(10).all(|byte| digit(byte).is_some()).then_some(())?;
            let millis = id.bytes().take(10).try_fold(0_u64, |sum, byte| Some((sum << 5) | digit(byte)? as u64))?;
            (millis < 1 << 48).then(|| Timestamp::from_millis(millis as i64))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(json: &str) -> Envelope {
        Envelope { body: json.as_bytes().to_vec(), ..Envelope::default() }
    }

    fn by(id: Pick) -> Identity {
        Identity { id, ..Identity::default() }
    }

    #[test]
    fn an_id_is_taken_as_it_stands() {
        let pointer = by(Pick::Body("/id".into()));
        let id = |json: &str| pointer.identify(body(json)).map(|m| m.id).map_err(|r| r.reason);
        assert_eq!(id(r#"{"id":" Ab1 "}"#), Ok(" Ab1 ".into()), "no trimming, no folding");
        assert_eq!(id(r#"{"id":18446744073709551615}"#), Ok("18446744073709551615".into()));
        assert_eq!(id(r#"{"id":18446744073709551616}"#), Err(Reason::InvalidId), "would merge neighbours");
        assert_eq!(id(r#"{"id":1.0}"#), Err(Reason::InvalidId));
        assert_eq!(id(r#"{"id":null}"#), Err(Reason::MissingId));
        assert_eq!(id(r#"{}"#), Err(Reason::MissingId));
        assert_eq!(id(r#"{"id":""}"#), Err(Reason::InvalidId));
        assert_eq!(id("oops"), Err(Reason::Undecodable), "judged before the id");
        assert_eq!(id(&format!(r#"{{"id":"{}"}}"#, "x".repeat(255))), Ok("x".repeat(255)));
        assert_eq!(id(&format!(r#"{{"id":"{}"}}"#, "x".repeat(256))), Err(Reason::InvalidId));
        assert_eq!(id(&format!(r#"{{"id":"{}"}}"#, "é".repeat(128))), Err(Reason::InvalidId), "bytes, not characters");
    }

    #[test]
    fn joined_parts_cannot_run_together() {
        let joined = by(Pick::Joined(vec![Pick::Header("a".into()), Pick::Header("b".into())]));
        let of = |a: &str, b: &str| {
            let headers = vec![("A".into(), a.into()), ("b".into(), b.into())];
            joined.identify(Envelope { headers, ..body("{}") }).unwrap().id
        };
        assert_eq!(of("ab", "c"), "2:ab1:c");
        assert_ne!(of("ab", "c"), of("a", "bc"));
        let lone = Envelope { headers: vec![("a".into(), "1".into())], ..body("{}") };
        assert_eq!(joined.identify(lone).unwrap_err().reason, Reason::MissingId);
        let empty = Envelope { headers: vec![("a".into(), "".into()), ("b".into(), "".into())], ..body("{}") };
        assert_eq!(joined.identify(empty).unwrap_err().reason, Reason::InvalidId);
    }

    #[test]
    fn the_time_inside_an_id_wins() {
        let identity = Identity { time: Some(Pick::Body("/at".into())), ..Identity::default() };
        let at = |id: &str| {
            identity
                .identify(Envelope::new(id, r#"{"at":"2020-01-01T00:00:00Z"}"#))
                .unwrap()
                .time
                .map(Timestamp::as_millis)
        };
        assert_eq!(at("018f2f1e-3c00-7abc-8def-0123456789ab"), Some(0x018f_2f1e_3c00));
        assert_eq!(at("01ARYZ6S41TSV4RRFFQ69G5FAV"), Some(1_469_918_176_385));
        assert_eq!(at("order-17"), Some(1_577_836_800_000));
        assert_eq!(at("8f2f1e3c-0000-4abc-8def-0123456789ab"), Some(1_577_836_800_000), "a UUIDv4 has no time");
    }

    #[test]
    fn a_body_over_the_limit_keeps_its_beginning_and_its_digest() {
        let identity = Identity { body_length_max: 100_000, ..Identity::default() };
        let of = |last: u8| {
            let mut long = vec![b'x'; 100_001];
            long[100_000] = last;
            identity.identify(Envelope::new("a", long)).unwrap_err()
        };
        let refused = of(b'y');
        assert_eq!(
            (refused.reason, refused.envelope.body.len(), refused.envelope.length()),
            (Reason::TooLarge, CUT_LENGTH, 100_001)
        );
        assert_ne!(refused.fingerprint, of(b'z').fingerprint);
    }
}
