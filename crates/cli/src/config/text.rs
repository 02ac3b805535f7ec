//! Texts of the file: names, paths, addresses and secrets, each with its limits.

use super::env::{expand, mentions_variable};
use super::redact::{Address, Secret};
use super::tree::{Node, Parsed, Table, shown};

/// Names of queues, topics and the like are not longer: the longest that any broker allows.
const NAME_BYTES_MAX: usize = 255;

/// Names of consumers and destinations are not longer.
const LABEL_BYTES_MAX: usize = 100;

/// Paths, addresses and secrets are not longer.
const ADDRESS_BYTES_MAX: usize = 4096;

/// The name of a queue, a topic and the like. `example` is the value of a right one.
pub(super) fn name(node: &Node<'_>, example: &str) -> Parsed<String> {
    let expected = format!("a name such as \"{example}\"");
    let text = node.text(&expected)?;
    if mentions_variable(text) {
        return Err(format!("environment variables work in addresses and secrets only; expected {expected} as it is"));
    }
    if text.is_empty() || text.len() > NAME_BYTES_MAX || text.contains(char::is_control) {
        return Err(format!("expected {expected}, of 1 to {NAME_BYTES_MAX} bytes without control characters"));
    }
    Ok(text.into())
}

/// A path, not yet joined to the file's directory, and without variables.
pub(super) fn path<'t>(node: &Node<'t>, example: &str) -> Parsed<&'t str> {
    let expected = format!("a path such as \"{example}\"");
    let text = node.text(&expected)?;
    if mentions_variable(text) {
        return Err(format!("environment variables work in addresses and secrets only; expected {expected} as it is"));
    }
    check_line(text).map_err(|why| format!("expected {expected}; {why}"))?;
    Ok(text)
}

/// A text in which `${NAME}` is put in. Nothing of it is shown.
pub(super) fn expanded(node: &Node<'_>, expected: &str) -> Parsed<String> {
    let text = expand(node.text(expected)?, node.context.inputs().env)?;
    check_line(&text).map_err(|why| format!("expected {expected}; {why}"))?;
    Ok(text)
}

fn check_line(text: &str) -> Result<(), String> {
    match text {
        "" => Err("this one is empty".into()),
        _ if text.contains(char::is_control) => Err("this one holds control characters".into()),
        _ if text.len() > ADDRESS_BYTES_MAX => Err(format!("this one is longer than {ADDRESS_BYTES_MAX} bytes")),
        _ => Ok(()),
    }
}

/// An address that passes a test of its form; `expected` is a noun with an example.
pub(super) fn address(node: &Node<'_>, expected: &str, is_well: impl Fn(&str) -> bool) -> Parsed<Address> {
    let text = expanded(node, expected)?;
    if is_well(&text) { Ok(Address::new(text)) } else { Err(format!("expected {expected}, found another text")) }
}

/// A secret.
pub(super) fn secret(node: &Node<'_>) -> Parsed<Secret> {
    expanded(node, "a secret such as \"${WEBHOOK_SECRET}\"").map(Secret::new)
}

/// Whether a URL begins with one of the schemes and goes on.
pub(super) fn has_scheme(url: &str, schemes: &[&str]) -> bool {
    url.split_once("://").is_some_and(|(scheme, rest)| {
        !rest.is_empty() && schemes.iter().any(|known| known.eq_ignore_ascii_case(scheme))
    })
}

/// Whether a text is `HOST:PORT`.
pub(super) fn is_host_and_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(host, port)| {
        let is_host =
            !host.is_empty() && !host.contains(['/', '@', ' ']) && (!host.contains(':') || host.starts_with('['));
        is_host && port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok()
    })
}

/// Whether a text can name a consumer or a destination: the names go to tables, logs and command lines.
pub(super) fn is_label(text: &str) -> bool {
    text.len() <= LABEL_BYTES_MAX
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-'))
}

/// What a name of a consumer or a destination looks like; `example` is a right one.
pub(super) fn label_rule(example: &str) -> String {
    format!(
        "a name has 1 to {LABEL_BYTES_MAX} letters of a to z, digits, \".\", \"_\" and \"-\" and begins with a \
         letter or a digit, such as {example}"
    )
}

/// The name of a consumer or a destination as a value.
pub(super) fn label(node: &Node<'_>, example: &str) -> Parsed<String> {
    let text = node.text(&format!("a name such as \"{example}\""))?;
    if is_label(text) {
        Ok(text.into())
    } else {
        Err(format!("{}, found {}", label_rule(&format!("\"{example}\"")), shown(text)))
    }
}

/// A key with dots that nobody quoted reads as tables inside each other. The whole key as it was meant, where the
/// innermost table is one that `is_end` knows.
pub(super) fn unquoted_key(key: &str, node: &Node<'_>, is_end: fn(&Table<'_>) -> bool) -> Option<String> {
    if !node.is_table() {
        return None;
    }
    let table = node.table("a table")?;
    if is_end(&table) {
        return Some(key.into());
    }
    table.nodes().iter().find_map(|(part, inner)| unquoted_key(&format!("{key}.{part}"), inner, is_end))
}

/// The bytes are not UTF-8; the first wrong one is in this line, counted from 1.
pub(super) struct NotText {
    pub(super) line: usize,
}

/// The text of a file, without a byte order mark.
pub(super) fn from_bytes(bytes: Vec<u8>) -> Result<String, NotText> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        NotText { line: 1 + good.iter().filter(|byte| **byte == b'\n').count() }
    })?;
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_hosts_are_told_from_other_texts() {
        for (text, good) in [
            ("payments", true),
            ("0.a_B-c", true),
            ("", false),
            (".a", false),
            ("-a", false),
            ("a b", false),
            ("tä", false),
        ] {
            assert_eq!(is_label(text), good, "{text:?}");
        }
        assert!(is_label(&"x".repeat(100)) && !is_label(&"x".repeat(101)));
        for (text, good) in [
            ("localhost:9092", true),
            ("[::1]:80", true),
            ("::1:80", false),
            ("localhost", false),
            (":80", false),
            ("h:99999", false),
            ("h:+80", false),
            ("h:", false),
            ("u@h:80", false),
        ] {
            assert_eq!(is_host_and_port(text), good, "{text:?}");
        }
    }
}
