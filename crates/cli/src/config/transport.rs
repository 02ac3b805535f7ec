//! What `from` and `to` share: a table in which one key names the transport and the others belong to it.

use super::redact::Address;
use super::suggest::{listed, nearest, unknown_key};
use super::text;
use super::tree::{Node, Parsed, Table};

/// One form of `from` or `to`: the key that names it, the part that must be built for it, and the keys that go with it.
pub(super) struct Form {
    pub(super) name: &'static str,
    pub(super) part: &'static str,
    pub(super) keys: &'static [&'static str],
}

/// The one form that a table has. What is wrong with the choice is kept; unknown keys too, once the form is known.
pub(super) fn form(table: &Table<'_>, forms: &'static [Form], noun: &str, example: &str) -> Option<&'static Form> {
    let present: Vec<&Form> = forms.iter().filter(|form| table.has(form.name)).collect();
    let form = match present[..] {
        [form] => form,
        [] => {
            no_form(table, forms, noun, example);
            return None;
        }
        _ => {
            let names: Vec<&str> = present.iter().map(|form| form.name).collect();
            table.fail(format!("names more than one {noun}: {}; keep one, such as {example}", listed(&names, "and")));
            return None;
        }
    };
    if let Err(lack) = table.context.built().require(form.part) {
        table.fail_at(form.name, lack);
        return None;
    }
    let known: Vec<&str> = [form.name].iter().chain(form.keys).copied().collect();
    table.refuse_unknown(&known);
    Some(form)
}

fn no_form(table: &Table<'_>, forms: &[Form], noun: &str, example: &str) {
    let names: Vec<&str> = forms.iter().map(|form| form.name).collect();
    for (key, node) in table.nodes() {
        if nearest(key, &names).is_some() {
            node.fail(unknown_key(key, &names));
            return;
        }
    }
    table.fail(format!("names no {noun}; use one of {}, such as {example}", listed(&names, "or")));
}

/// The address of a RabbitMQ server.
pub(super) fn rabbitmq(node: &Node<'_>) -> Parsed<Address> {
    url(node, "the address of a server such as \"amqp://localhost:5672\"", &["amqp", "amqps"])
}

/// The bootstrap servers of a Kafka cluster.
pub(super) fn kafka(node: &Node<'_>) -> Parsed<Address> {
    text::address(node, "servers such as \"one:9092,two:9092\"", |text| text.split(',').all(text::is_host_and_port))
}

/// The address of a NATS server, or several with commas.
pub(super) fn nats(node: &Node<'_>) -> Parsed<Address> {
    text::address(node, "the address of a server such as \"nats://localhost:4222\"", |text| {
        text.split(',').all(|one| text::has_scheme(one, &["nats", "tls", "ws", "wss"]))
    })
}

/// The URL of an SQS queue.
pub(super) fn sqs(node: &Node<'_>) -> Parsed<Address> {
    url(
        node,
        "the URL of a queue such as \"https://sqs.eu-west-1.amazonaws.com/123456789012/payments\"",
        &["http", "https"],
    )
}

/// The endpoint to use in place of Amazon's own.
pub(super) fn sqs_endpoint(node: &Node<'_>) -> Parsed<Address> {
    url(node, "the URL of an endpoint such as \"http://localhost:4566\"", &["http", "https"])
}

/// The connection string of a Service Bus namespace.
pub(super) fn servicebus(node: &Node<'_>) -> Parsed<Address> {
    text::address(node, "a connection string such as \"${SERVICEBUS}\", which begins with \"Endpoint=sb://\"", |text| {
        text.split(';').any(|pair| pair.to_ascii_lowercase().starts_with("endpoint=sb://"))
    })
}

/// The address of an AMQP 1.0 server.
pub(super) fn amqp1(node: &Node<'_>) -> Parsed<Address> {
    url(node, "the address of a server such as \"amqp://localhost:5672\"", &["amqp", "amqps"])
}

/// The address of a Redis server.
pub(super) fn redis(node: &Node<'_>) -> Parsed<Address> {
    url(node, "the address of a server such as \"redis://localhost:6379\"", &["redis", "rediss"])
}

fn url(node: &Node<'_>, expected: &str, schemes: &[&str]) -> Parsed<Address> {
    text::address(node, expected, |text| text::has_scheme(text, schemes))
}

/// A name that a form needs.
pub(super) fn require_name(table: &Table<'_>, key: &str, example: &str) -> Option<String> {
    table.require(key, &format!("{key} = \"{example}\""), |node| text::name(node, example))
}

/// A key that a form may have: the outer `None` where it is wrong, the inner where it is absent.
pub(super) fn optional<T>(
    table: &Table<'_>,
    key: &str,
    parse: impl FnOnce(&Node<'_>) -> Parsed<T>,
) -> Option<Option<T>> {
    match table.node(key) {
        None => Some(None),
        Some(node) => node.read(parse).map(Some),
    }
}

/// The address of a node at an AMQP 1.0 server.
pub(super) fn amqp1_node(table: &Table<'_>) -> Option<Address> {
    table.require("address", "address = \"payments\"", |node| {
        text::address(node, "a node's address such as \"payments\"", |_| true)
    })
}
