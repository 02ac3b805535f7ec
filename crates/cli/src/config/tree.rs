//! The parsed file as tables and nodes that know their key path and line.

use std::cell::RefCell;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::context::Context;
use super::suggest::{listed, nearest, unknown_key};

/// A value that was read, or the sentence that says what is wrong with it. The sentence never holds the value of an
/// address or a secret.
pub(super) type Parsed<T> = Result<T, String>;

/// Keys are shown up to this length.
const KEY_CHARS_MAX: usize = 60;

/// Found values are shown up to this length.
const VALUE_CHARS_MAX: usize = 40;

/// A table of the file.
pub(super) struct Table<'t> {
    pub(super) context: &'t Context<'t>,
    path: String,
    offset: Option<usize>,
    entries: &'t DeTable<'t>,
    /// Known keys that unknown ones were probably meant to be: nobody is told that they are missing too.
    meant: RefCell<Vec<String>>,
}

/// A value of the file.
pub(super) struct Node<'t> {
    pub(super) context: &'t Context<'t>,
    path: String,
    offset: usize,
    value: &'t DeValue<'t>,
}

impl<'t> Table<'t> {
    pub(super) fn root(context: &'t Context<'t>, entries: &'t DeTable<'t>) -> Self {
        Self { context, path: String::new(), offset: None, entries, meant: RefCell::default() }
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.contains_key(key)
    }

    pub(super) fn node(&self, key: &str) -> Option<Node<'t>> {
        self.entries.get_key_value(key).map(|(key, value)| self.at(key, value))
    }

    /// The keys and their values as they follow each other in the file.
    pub(super) fn nodes(&self) -> Vec<(&'t str, Node<'t>)> {
        let mut nodes: Vec<_> =
            self.entries.iter().map(|(key, value)| (key.get_ref().as_ref(), self.at(key, value))).collect();
        nodes.sort_by_key(|(_, node)| node.offset);
        nodes
    }

    fn at(&self, key: &'t Spanned<std::borrow::Cow<'t, str>>, value: &'t Spanned<DeValue<'t>>) -> Node<'t> {
        Node {
            context: self.context,
            path: joined(&self.path, key.get_ref()),
            offset: key.span().start,
            value: value.get_ref(),
        }
    }

    /// The value of a key, read by `parse`; `None` where it is absent or wrong. What is wrong is kept.
    pub(super) fn read<T>(&self, key: &str, parse: impl FnOnce(&Node<'t>) -> Parsed<T>) -> Option<T> {
        self.node(key)?.read(parse)
    }

    /// As `read`, with a complaint where the key is absent; `example` is a right line.
    pub(super) fn require<T>(&self, key: &str, example: &str, parse: impl FnOnce(&Node<'t>) -> Parsed<T>) -> Option<T> {
        if !self.has(key) {
            self.fail_missing(key, format!("missing; write for example {example}"));
        }
        self.read(key, parse)
    }

    /// Keeps a fault of the table itself.
    pub(super) fn fail(&self, message: impl Into<String>) {
        self.context.fail(self.offset, &self.path, message);
    }

    /// Keeps a fault of a key of the table, at the key's line, or at the table's where the key is absent.
    pub(super) fn fail_at(&self, key: &str, message: impl Into<String>) {
        match self.node(key) {
            Some(node) => node.fail(message),
            None => self.context.fail(self.offset, &joined(&self.path, key), message),
        }
    }

    /// Whether an unknown key was probably meant to be one of these.
    pub(super) fn is_meant(&self, keys: &[&str]) -> bool {
        self.meant.borrow().iter().any(|meant| keys.contains(&meant.as_str()))
    }

    /// Keeps the fault that a key is absent, unless it is there with a slip of the pen, which `refuse_unknown` has
    /// told.
    pub(super) fn fail_missing(&self, key: &str, message: impl Into<String>) {
        if !self.is_meant(&[key]) {
            self.context.fail(self.offset, &joined(&self.path, key), message);
        }
    }

    /// Refuses every key that is not in `known`. To be called first.
    pub(super) fn refuse_unknown(&self, known: &[&str]) {
        for (key, node) in self.nodes() {
            if !known.contains(&key) {
                node.fail(unknown_key(key, known));
                self.meant.borrow_mut().extend(nearest(key, known).map(str::to_owned));
            }
        }
    }
}

impl<'t> Node<'t> {
    pub(super) fn read<T>(&self, parse: impl FnOnce(&Node<'t>) -> Parsed<T>) -> Option<T> {
        parse(self).map_err(|message| self.fail(message)).ok()
    }

    /// Keeps a fault of this value.
    pub(super) fn fail(&self, message: impl Into<String>) {
        self.context.fail(Some(self.offset), &self.path, message);
    }

    pub(super) fn path(&self) -> &str {
        &self.path
    }

    pub(super) fn line(&self) -> usize {
        self.context.line(self.offset)
    }

    pub(super) fn is_table(&self) -> bool {
        self.value.is_table()
    }

    pub(super) fn is_empty_table(&self) -> bool {
        self.value.as_table().is_some_and(DeTable::is_empty)
    }

    /// `expected` is a noun with an example, such as `a name such as "payments"`.
    pub(super) fn mismatch(&self, expected: &str) -> String {
        let found = match self.value {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "an integer",
            DeValue::Float(_) => "a number with a fraction",
            DeValue::Boolean(true) => "true",
            DeValue::Boolean(false) => "false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        format!("expected {expected}, found {found}")
    }

    pub(super) fn text(&self, expected: &str) -> Parsed<&'t str> {
        self.value.as_str().ok_or_else(|| self.mismatch(expected))
    }

    pub(super) fn as_text(&self) -> Option<&'t str> {
        self.value.as_str()
    }

    /// The integer, where the value is one; one that does not fit is the nearest that does.
    pub(super) fn as_integer(&self) -> Option<i64> {
        let integer = self.value.as_integer()?;
        let nearest = if integer.as_str().starts_with('-') { i64::MIN } else { i64::MAX };
        Some(i64::from_str_radix(integer.as_str(), integer.radix()).unwrap_or(nearest))
    }

    pub(super) fn integer(&self, least: i64, most: i64, example: i64) -> Parsed<i64> {
        let expected = format!("a whole number from {least} to {most} such as {example}");
        let value = self.as_integer().ok_or_else(|| self.mismatch(&expected))?;
        match value {
            _ if (least..=most).contains(&value) => Ok(value),
            i64::MIN => Err(format!("expected {expected}, found a much smaller one")),
            i64::MAX => Err(format!("expected {expected}, found a much larger one")),
            _ => Err(format!("expected {expected}, found {value}")),
        }
    }

    pub(super) fn boolean(&self, expected: &str) -> Parsed<bool> {
        self.value.as_bool().ok_or_else(|| self.mismatch(expected))
    }

    /// One of a few words.
    pub(super) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Parsed<T> {
        let quoted: Vec<String> = choices.iter().map(|(word, _)| format!("\"{word}\"")).collect();
        let expected = listed(&quoted, "or");
        let text = self.text(&expected)?;
        if let Some((_, value)) = choices.iter().find(|(word, _)| *word == text) {
            return Ok(*value);
        }
        let words: Vec<&str> = choices.iter().map(|(word, _)| *word).collect();
        let hint = nearest(text, &words).map_or(String::new(), |near| format!("; did you mean \"{near}\"?"));
        Err(format!("expected {expected}, found {}{hint}", shown(text)))
    }

    /// The elements, where the value is a list.
    pub(super) fn items(&self) -> Option<Vec<Node<'t>>> {
        let array = self.value.as_array()?;
        Some(
            (0..array.len())
                .filter_map(|number| array.get(number).map(|element| (number, element)))
                .map(|(number, element)| Node {
                    context: self.context,
                    path: format!("{}[{number}]", self.path),
                    offset: element.span().start,
                    value: element.get_ref(),
                })
                .collect(),
        )
    }

    /// The table; a complaint where the value is none.
    pub(super) fn table(&self, expected: &str) -> Option<Table<'t>> {
        let Some(entries) = self.value.as_table() else {
            self.fail(self.mismatch(expected));
            return None;
        };
        Some(Table {
            context: self.context,
            path: self.path.clone(),
            offset: Some(self.offset),
            entries,
            meant: RefCell::default(),
        })
    }
}

/// A found value as a fault may show it: quoted, cut short, and not at all where it looks like an address.
pub(super) fn shown(text: &str) -> String {
    if text.contains("://") || text.contains(['@', ';']) || text.contains("${") {
        return "another text".into();
    }
    quoted(text, VALUE_CHARS_MAX)
}

fn quoted(text: &str, chars_max: usize) -> String {
    let cut: String = text.chars().take(chars_max).collect();
    let mark = if cut.len() < text.len() { "…" } else { "" };
    format!("\"{}{mark}\"", cut.escape_debug())
}

/// The path of a key in a table, quoted as the file would have it.
fn joined(path: &str, key: &str) -> String {
    let is_bare = !key.is_empty()
        && key.len() <= KEY_CHARS_MAX
        && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let key = match key {
        _ if is_bare => key.to_owned(),
        // An address that lost its key.
        _ if key.contains("://") || key.contains('@') => "\"…\"".to_owned(),
        _ => quoted(key, KEY_CHARS_MAX),
    };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_in_the_file_and_hide_what_looks_like_an_address() {
        assert_eq!(joined("", "store"), "store");
        assert_eq!(joined("consumer.pay", "payment.requested"), "consumer.pay.\"payment.requested\"");
        assert_eq!(joined("a", "x\n\u{1b}"), "a.\"x\\n\\u{1b}\"");
        assert_eq!(joined("a", ""), "a.\"\"");
        assert_eq!(joined("a", "amqp://me:hunter2@host"), "a.\"…\"");
        assert!(joined("a", &"k".repeat(1_000)).len() < 80);
    }

    #[test]
    fn found_values_are_cut_and_addresses_are_not_shown() {
        assert_eq!(shown("10 s\n"), "\"10 s\\n\"");
        assert_eq!(shown("postgres://me:hunter2@db"), "another text");
        assert_eq!(shown(&"x".repeat(100)).chars().count(), VALUE_CHARS_MAX + 3);
    }
}
