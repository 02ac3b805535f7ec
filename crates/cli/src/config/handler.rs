//! `[consumer.NAME.on."KIND"]`: what is done with messages of a kind.

use super::redact::Address;
use super::script::SqlFile;
use super::suggest::listed;
use super::text;
use super::tree::{Node, Parsed, Table};

/// A handler has at most this many statements or files.
const STEPS_MAX: usize = 100;

/// SQL in the file itself is not longer.
const SQL_BYTES_MAX: usize = 1 << 20;

/// Names of kinds are not longer.
const KIND_BYTES_MAX: usize = 255;

/// A program has at most this many arguments.
const ARGUMENTS_MAX: usize = 100;

/// What is done with messages of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HandlerConfig {
    /// The kind; `None` for `"*"`, which takes every kind that has no handler of its own.
    pub(crate) kind: Option<String>,
    /// What is done.
    pub(crate) work: Work,
    /// How SQL sees the body.
    pub(crate) body: BodyForm,
}

/// What a handler does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    /// Runs SQL in the claiming transaction, in this order. Never empty.
    Sql(Vec<SqlStep>),
    /// Calls an HTTP endpoint from the inbox.
    Post(Address),
    /// Runs a program from the inbox: its name, then its arguments. Never empty.
    Exec(Vec<String>),
}

/// SQL of a handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SqlStep {
    /// As the file has it. Nothing is put in for `${…}`.
    Text(String),
    /// In a file of its own.
    File(SqlFile),
}

/// How SQL sees the body in `messages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum BodyForm {
    /// As JSON.
    #[default]
    Json,
    /// As a base64 string of its bytes.
    Bytes,
}

const EXAMPLE: &str = "sql = \"insert into seen (id) select id from messages\"";
const KEYS: &[&str] = &["sql", "post", "exec", "body"];
const FORMS: &[&str] = &["sql", "post", "exec"];

/// All handlers of a consumer, in the order of the file; at least one.
pub(super) fn handlers(consumer: &Table<'_>) -> Option<Vec<HandlerConfig>> {
    let example = format!("[{}.on.\"payment.requested\"] with {EXAMPLE}", consumer.path());
    let none = format!("no handler, so that nothing could be processed; add {example}, or on.\"*\" for any kind");
    let Some(on) = consumer.node("on") else {
        consumer.fail_missing("on", none);
        return None;
    };
    let table = on.table(&format!("tables such as {example}"))?;
    if table.is_empty() {
        table.fail(none);
    }
    let all: Vec<Option<HandlerConfig>> =
        table.nodes().iter().map(|(kind, node)| handler(kind, node, consumer.path())).collect();
    all.into_iter().collect()
}

fn handler(kind: &str, node: &Node<'_>, consumer: &str) -> Option<HandlerConfig> {
    check_kind(kind, node);
    if let Some(whole) = text::unquoted_key(kind, node, |table| FORMS.iter().any(|form| table.has(form)))
        && whole != kind
    {
        node.fail(format!("a kind with dots is quoted: [{consumer}.on.\"{}\"]", whole.escape_debug()));
        return None;
    }
    let table = node.table(&format!("a table with {EXAMPLE}"))?;
    table.refuse_unknown(KEYS);
    let present: Vec<&str> = FORMS.iter().copied().filter(|form| table.has(form)).collect();
    let work = match present[..] {
        ["sql"] => table.node("sql").and_then(|node| sql(&node)).map(Work::Sql),
        [form] => match table.context.built().require(form) {
            Err(lack) => {
                table.fail_at(form, lack);
                None
            }
            Ok(()) if form == "post" => table.read("post", post).map(Work::Post),
            Ok(()) => table.node("exec").and_then(|node| exec(&node)).map(Work::Exec),
        },
        [] if table.is_meant(FORMS) => None,
        [] => {
            table.fail(format!("does nothing; write one of sql, post or exec, such as {EXAMPLE}"));
            None
        }
        _ => {
            table.fail(format!("has {}; keep one of them, such as {EXAMPLE}", listed(&present, "and")));
            None
        }
    };
    let body = body(&table, present.as_slice() == ["sql"]);
    Some(HandlerConfig { kind: (kind != "*").then(|| kind.into()), work: work?, body: body? })
}

fn check_kind(kind: &str, node: &Node<'_>) {
    if kind.is_empty() || kind.len() > KIND_BYTES_MAX || kind.contains(char::is_control) {
        node.fail(format!(
            "a kind has 1 to {KIND_BYTES_MAX} bytes without control characters, such as on.\"payment.requested\""
        ));
    } else if kind != "*" && kind.contains('*') {
        node.fail(
            "there are no patterns of kinds; name one kind such as on.\"payment.requested\", or use \
                   on.\"*\" for all that have no handler of their own",
        );
    }
}

fn body(table: &Table<'_>, is_sql: bool) -> Option<BodyForm> {
    let Some(node) = table.node("body") else { return Some(BodyForm::default()) };
    if !is_sql {
        node.fail("says how sql sees the body; post and exec get it as it came: remove the key");
        return None;
    }
    node.read(|node| {
        let form = node.choice(&[("bytes", BodyForm::Bytes), ("json", BodyForm::Json)])?;
        if form == BodyForm::Bytes {
            node.context.built().require("bytes")?;
        }
        Ok(form)
    })
}

fn sql(node: &Node<'_>) -> Option<Vec<SqlStep>> {
    let Some(items) = node.items() else { return step(node).map(|step| vec![step]) };
    if items.is_empty() || items.len() > STEPS_MAX {
        node.fail(format!("expected a list of 1 to {STEPS_MAX} statements, found {}", items.len()));
        return None;
    }
    let steps: Vec<Option<SqlStep>> = items.iter().map(step).collect();
    steps.into_iter().collect()
}

fn step(node: &Node<'_>) -> Option<SqlStep> {
    let expected = "SQL as text, such as \"insert into seen (id) select id from messages\", or { file = \"pay.sql\" }";
    if node.is_table() {
        let table = node.table(expected)?;
        table.refuse_unknown(&["file"]);
        return table.require("file", "{ file = \"pay.sql\" }", SqlFile::parse).map(SqlStep::File);
    }
    node.read(|node| {
        let text = node.text(expected)?;
        if text.trim().is_empty() || text.contains('\0') || text.len() > SQL_BYTES_MAX {
            return Err(format!("expected {expected}, of at most {}MiB and not empty", SQL_BYTES_MAX >> 20));
        }
        Ok(SqlStep::Text(text.into()))
    })
}

fn post(node: &Node<'_>) -> Parsed<Address> {
    text::address(node, "the URL of an endpoint such as \"https://billing.internal/payments\"", |url| {
        text::has_scheme(url, &["http", "https"])
    })
}

fn exec(node: &Node<'_>) -> Option<Vec<String>> {
    let expected = "a program and its arguments such as [\"./pay.sh\", \"--once\"]";
    let argument = |node: &Node<'_>| match node.text(expected)? {
        text if text.contains('\0') => Err(format!("expected {expected}, without NUL characters")),
        text => Ok(text.to_owned()),
    };
    let items = match node.items() {
        Some(items) => items,
        None => return node.read(argument).and_then(|program| nonempty(node, vec![program], expected)),
    };
    let arguments: Vec<Option<String>> = items.iter().map(|item| item.read(argument)).collect();
    nonempty(node, arguments.into_iter().collect::<Option<_>>()?, expected)
}

fn nonempty(node: &Node<'_>, arguments: Vec<String>, expected: &str) -> Option<Vec<String>> {
    if arguments.first().is_none_or(String::is_empty) || arguments.len() > ARGUMENTS_MAX {
        node.fail(format!("expected {expected}: at least the program's name, and at most {ARGUMENTS_MAX} parts"));
        return None;
    }
    Some(arguments)
}
