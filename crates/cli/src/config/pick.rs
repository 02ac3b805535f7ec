//! Where in a message an id, a kind, a key or a time is found.

use super::pointer::Pointer;
use super::tree::{Node, Parsed, shown};

/// Names of headers and fixed kinds are not longer.
const NAME_BYTES_MAX: usize = 255;

/// A list joins at most this many parts.
const PARTS_MAX: usize = 16;

/// Where a value of a message is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pick {
    /// `"property"`: the field that the broker has for it, such as AMQP's `message_id`.
    Property,
    /// `"header:NAME"`.
    Header(String),
    /// `"body:/POINTER"`: a place in the JSON body.
    Body(Pointer),
    /// `"cloudevents"`: the attributes of a CloudEvent, in either of its modes.
    CloudEvents,
    /// A list of the forms above, joined length-prefixed. Never empty, never nested.
    All(Vec<Pick>),
    /// `"=payment.requested"`: the same for all messages. Only for kinds.
    Fixed(String),
}

/// What is picked: not all forms make sense for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    Id,
    Kind,
    Key,
    Time,
}

impl Purpose {
    fn example(self) -> &'static str {
        match self {
            Self::Id => "body:/payment_id",
            Self::Kind => "body:/type",
            Self::Key => "body:/account",
            Self::Time => "body:/sent_at",
        }
    }

    fn expected(self) -> String {
        let (fixed, list) = match self {
            Self::Kind => (", \"=FIXED\"", " or a list of them"),
            Self::Time => ("", ""),
            Self::Id | Self::Key => ("", " or a list of them"),
        };
        let example = self.example();
        format!("\"property\", \"header:NAME\", \"body:/POINTER\", \"cloudevents\"{fixed}{list}, such as \"{example}\"")
    }
}

impl Pick {
    /// Whether any part of it satisfies the test.
    pub(super) fn any(&self, test: impl Fn(&Pick) -> bool) -> bool {
        match self {
            Self::All(parts) => parts.iter().any(test),
            one => test(one),
        }
    }
}

/// Reads one of the forms, or a list of them.
pub(super) fn pick(node: &Node<'_>, purpose: Purpose) -> Option<Pick> {
    let Some(items) = node.items() else {
        return node.read(|node| one(node.text(&purpose.expected())?, purpose));
    };
    if purpose == Purpose::Time {
        node.fail("a time is found in one place: expected one text such as \"body:/sent_at\", found a list");
        return None;
    }
    if items.is_empty() || items.len() > PARTS_MAX {
        let example = purpose.example();
        node.fail(format!("expected a list of 1 to {PARTS_MAX} such as [\"{example}\"], found {}", items.len()));
        return None;
    }
    let parts: Vec<Option<Pick>> = items
        .iter()
        .map(|item| item.read(|item| in_list(item.text("a text in the list, such as \"body:/part\"")?, purpose)))
        .collect();
    parts.into_iter().collect::<Option<_>>().map(Pick::All)
}

fn in_list(text: &str, purpose: Purpose) -> Parsed<Pick> {
    if purpose == Purpose::Kind && text.starts_with('=') {
        return Err(
            "a fixed part has no place in a list; a fixed kind stands alone, such as kind = \"=payment.requested\""
                .into(),
        );
    }
    one(text, purpose)
}

fn one(text: &str, purpose: Purpose) -> Parsed<Pick> {
    match text.split_once(':') {
        _ if text == "property" => return Ok(Pick::Property),
        _ if text == "cloudevents" => return Ok(Pick::CloudEvents),
        _ if text.starts_with('=') => return fixed(&text[1..], purpose),
        Some(("header", name)) => return header(name),
        Some(("body", pointer)) => {
            let expected = format!("a place in the body such as \"{}\"", purpose.example());
            return Pointer::parse(pointer)
                .map(Pick::Body)
                .map_err(|rule| format!("expected {expected}, found {}; {rule}", shown(text)));
        }
        _ => {}
    }
    let meant = match text.split_once([':', '.']) {
        _ if text.starts_with('/') => Some(format!("body:{text}")),
        Some(("headers" | "Header" | "header", name)) => Some(format!("header:{name}")),
        Some(("Body" | "body", path)) => Some(format!("body:/{}", path.trim_start_matches('/').replace('.', "/"))),
        _ => super::suggest::nearest(text, &["property", "cloudevents"]).map(str::to_owned),
    };
    let hint = meant.map_or(String::new(), |meant| format!("; did you mean {}?", shown(&meant)));
    Err(format!("expected {}, found {}{hint}", purpose.expected(), shown(text)))
}

fn fixed(value: &str, purpose: Purpose) -> Parsed<Pick> {
    match purpose {
        Purpose::Kind if is_name(value) => Ok(Pick::Fixed(value.into())),
        Purpose::Kind => Err(format!(
            "after \"=\" comes the kind of all messages, 1 to {NAME_BYTES_MAX} bytes, such as \"=payment.requested\""
        )),
        Purpose::Id => {
            Err("a fixed id would make all messages after the first duplicates; name the place of the producer's id, \
                            such as \"body:/payment_id\""
                .into())
        }
        Purpose::Key => Err(
            "a fixed key would put all messages into one line; name the place of the key, such as \"body:/account\""
                .into(),
        ),
        Purpose::Time => Err("a fixed time tells no age; name the place of the time, such as \"body:/sent_at\"".into()),
    }
}

fn header(name: &str) -> Parsed<Pick> {
    if is_name(name) && name.trim() == name {
        return Ok(Pick::Header(name.into()));
    }
    Err(format!(
        "after \"header:\" comes a name of 1 to {NAME_BYTES_MAX} bytes without blanks around it, such as \
         \"header:message-id\""
    ))
}

fn is_name(text: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_near_misses_are_named() {
        let body = |pointer: &str| Pick::Body(Pointer::parse(pointer).unwrap());
        assert_eq!(one("property", Purpose::Id), Ok(Pick::Property));
        assert_eq!(one("cloudevents", Purpose::Time), Ok(Pick::CloudEvents));
        assert_eq!(one("header:X:Y", Purpose::Id), Ok(Pick::Header("X:Y".into())));
        assert_eq!(one("body:/a:b/0", Purpose::Key), Ok(body("/a:b/0")));
        assert_eq!(one("=a=b", Purpose::Kind), Ok(Pick::Fixed("a=b".into())));
        for (text, part) in [
            ("propery", "did you mean \"property\"?"),
            ("/id", "did you mean \"body:/id\"?"),
            ("body.a.b", "did you mean \"body:/a/b\"?"),
            ("headers:x", "did you mean \"header:x\"?"),
            ("body:id", "found \"body:id\"; a JSON pointer begins with \"/\""),
            ("body:/a~2", "is written \"~0\""),
            ("header:", "after \"header:\""),
            ("header: x", "after \"header:\""),
            ("=x", "duplicates"),
            ("", "expected \"property\""),
        ] {
            let error = one(text, Purpose::Id).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
        for purpose in [Purpose::Key, Purpose::Time] {
            assert!(one("=x", purpose).is_err());
        }
        assert!(one("=", Purpose::Kind).is_err());
        assert!(in_list("=x", Purpose::Kind).is_err());
    }
}
