//! JSON that every supported database takes and reads alike.
//!
//! PostgreSQL's `jsonb` refuses U+0000 and keeps the *last* of two equal names; SQLite takes both and reads the *first*. A message that two
//! databases would read differently is refused before anything is written: it could be claimed under one id and worked under another.

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use std::fmt;

/// Longest number token; `numeric` of PostgreSQL ends at 16,383 digits after the point.
const NUMBER_LENGTH_MAX: usize = 400;

/// Parses a body, or says why no database would take it. The reason never quotes the body.
pub(crate) fn parse(body: &[u8]) -> Result<Value, String> {
    if std::str::from_utf8(body).is_err() {
        return Err("the body is not UTF-8".into());
    }
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let value = Strict.deserialize(&mut deserializer).and_then(|value| deserializer.end().map(|()| value));
    let value = value.map_err(|error| {
        // serde_json names the place and the fault; a fault of ours names the rule. Neither quotes a value, but for `invalid type`.
        format!("the body is not JSON that every database takes: {error}")
    })?;
    match long_number(body) {
        true => Err(format!("the body has a number of more than {NUMBER_LENGTH_MAX} digits")),
        false => Ok(value),
    }
}

struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

fn text<E: Error>(text: &str) -> Result<String, E> {
    match text.contains('\0') {
        true => Err(E::custom("a string holds U+0000")),
        false => Ok(text.to_owned()),
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number is out of range"))
    }
    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        text(value).map(Value::String)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            all.push(item);
        }
        Ok(Value::Array(all))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let name = text(&name)?;
            let value = members.next_value_seed(Strict)?;
            if all.insert(name, value).is_some() {
                return Err(A::Error::custom("an object has one name twice"));
            }
        }
        Ok(Value::Object(all))
    }
}

fn long_number(body: &[u8]) -> bool {
    let (mut in_string, mut escaped, mut length, mut exponent) = (false, false, 0_usize, None::<usize>);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'0'..=b'9' | b'.' | b'+' | b'-' => {
                length += 1;
                if let (Some(value), true) = (exponent, byte.is_ascii_digit()) {
                    exponent = Some(value.saturating_mul(10) + usize::from(byte - b'0'));
                }
            }
            b'e' | b'E' if length > 0 => exponent = Some(0),
            _ => (length, exponent) = (0, None),
        }
        if length > NUMBER_LENGTH_MAX || exponent.is_some_and(|value| value > NUMBER_LENGTH_MAX) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_every_database_takes() {
        let body = br#"{"a":[1,-2.5,1e300,true,null,"\u00e9\ud83d\ude00 \\\" 111"],"b":{"a":18446744073709551615}}"#;
        assert_eq!(parse(body).unwrap(), serde_json::from_slice::<Value>(body).unwrap());
    }

    #[test]
    fn refuses_what_one_of_them_would_refuse_or_read_otherwise() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        let long = format!("0.{}", "1".repeat(500));
        let refused: [(&[u8], &str); 11] = [
            (b"", "EOF"),
            (b"{\"a\":1", "EOF"),
            (b"{} {}", "trailing"),
            (b"\"\xff\"", "UTF-8"),
            (br#"{"a":"x\u0000y"}"#, "U+0000"),
            (br#"{"a\u0000":1}"#, "U+0000"),
            (br#""\ud800""#, "escape"),
            (br#"{"id":"a","id":"b"}"#, "twice"),
            (deep.as_bytes(), "recursion"),
            (long.as_bytes(), "digits"),
            (b"[1e-99999]", "digits"),
        ];
        for (body, word) in refused {
            let reason = parse(body).unwrap_err();
            assert!(reason.contains(word), "{:?}: {reason}", String::from_utf8_lossy(body));
        }
        assert!(
            !parse(br#"{"card":"4111-secret","card":1}"#).unwrap_err().contains("4111"),
            "a reason quotes no payload"
        );
    }
}
