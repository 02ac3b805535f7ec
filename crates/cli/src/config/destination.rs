//! `[destination.NAME]` and `[relay]`: where messages go to.

use std::path::PathBuf;

use super::redact::Address;
use super::suggest::nearest;
use super::text;
use super::transport::{self, Form, optional, require_name};
use super::tree::{Node, Parsed, Table};

/// A place that the relay and `semel send` publish to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    /// The name that messages are addressed to.
    pub(crate) name: String,
    /// Where it is.
    pub(crate) to: To,
}

/// Where a destination is. Paths are joined to the directory of the file that names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum To {
    /// A file that gets one structured CloudEvent a line.
    File {
        /// Where the file is.
        path: PathBuf,
    },
    /// A RabbitMQ exchange.
    Rabbitmq {
        /// `amqp://…`
        address: Address,
        /// The exchange; `""` is the server's own, which routes by the queue's name.
        exchange: String,
        /// The routing key; there is always one where the exchange is `""`.
        routing_key: Option<String>,
    },
    /// A Kafka topic.
    Kafka {
        /// `host:port,…`
        servers: Address,
        /// The topic's name.
        topic: String,
    },
    /// A NATS subject that a JetStream stream takes in.
    Nats {
        /// `nats://…`
        address: Address,
        /// The subject.
        subject: String,
    },
    /// An SQS queue.
    Sqs {
        /// The queue's URL.
        queue_url: Address,
        /// An endpoint in place of Amazon's own.
        endpoint: Option<Address>,
        /// The region, where the environment does not say it.
        region: Option<String>,
    },
    /// An Azure Service Bus queue or topic.
    ServiceBus {
        /// The connection string.
        connection: Address,
        /// The name of the queue or topic.
        entity: String,
    },
    /// Any AMQP 1.0 broker.
    Amqp1 {
        /// `amqp://…`
        server: Address,
        /// The address of the node at the server, such as a queue.
        address: Address,
    },
    /// A Redis stream.
    Redis {
        /// `redis://…`
        address: Address,
        /// The stream's key.
        stream: String,
    },
    /// Local delivery: another consumer on the same store. It need not be in this file.
    Consumer {
        /// The consumer's name.
        name: String,
    },
}

/// `[relay]`: present where `run` also relays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Relay {
    /// The destinations that are relayed; `None` for all.
    pub(crate) destinations: Option<Vec<String>>,
}

const FORMS: &[Form] = &[
    Form { name: "file", part: "file", keys: &[] },
    Form { name: "rabbitmq", part: "rabbitmq", keys: &["exchange", "routing_key"] },
    Form { name: "kafka", part: "kafka", keys: &["topic"] },
    Form { name: "nats", part: "nats", keys: &["subject"] },
    Form { name: "sqs", part: "sqs", keys: &["endpoint", "region"] },
    Form { name: "servicebus", part: "servicebus", keys: &["queue", "topic"] },
    Form { name: "amqp1", part: "amqp1", keys: &["address"] },
    Form { name: "redis", part: "redis", keys: &["stream"] },
    Form { name: "consumer", part: "local", keys: &[] },
];

const EXAMPLE: &str = "{ file = \"shipping.jsonl\" }";

/// All destinations, in the order of the file.
pub(super) fn destinations(node: &Node<'_>) -> Option<Vec<Destination>> {
    let table = node.table("tables such as [destination.shipping]")?;
    let all: Vec<Option<Destination>> = table.nodes().iter().map(|(name, node)| destination(name, node)).collect();
    all.into_iter().collect()
}

fn destination(name: &str, node: &Node<'_>) -> Option<Destination> {
    if !text::is_label(name) {
        node.fail(text::label_rule("[destination.shipping]"));
    }
    let table = node.table(&format!("a table such as [destination.shipping] with to = {EXAMPLE}"))?;
    table.refuse_unknown(&["to"]);
    let Some(to) = table.node("to") else {
        table.fail_missing("to", format!("missing; write for example to = {EXAMPLE}"));
        return None;
    };
    Some(Destination { name: name.into(), to: To::parse(&to)? })
}

impl To {
    fn parse(node: &Node<'_>) -> Option<Self> {
        let table = node.table(&format!("a table such as {EXAMPLE}"))?;
        if table.has("stdin") || table.has("webhook") {
            table.fail(format!("stdin and webhook are sources only; name a destination such as {EXAMPLE}"));
            return None;
        }
        match transport::form(&table, FORMS, "destination", EXAMPLE)?.name {
            "file" => table.read("file", |node| {
                let path = node.context.path(&text::expanded(node, "a path such as \"shipping.jsonl\"")?);
                Ok(Self::File { path })
            }),
            "rabbitmq" => rabbitmq(&table),
            "kafka" => {
                let (servers, topic) =
                    (table.read("kafka", transport::kafka), require_name(&table, "topic", "shipping"));
                Some(Self::Kafka { servers: servers?, topic: topic? })
            }
            "nats" => {
                let (address, subject) =
                    (table.read("nats", transport::nats), require_name(&table, "subject", "shipping.requested"));
                Some(Self::Nats { address: address?, subject: subject? })
            }
            "sqs" => {
                let queue_url = table.read("sqs", transport::sqs);
                let endpoint = optional(&table, "endpoint", transport::sqs_endpoint);
                let region = optional(&table, "region", |node| text::name(node, "eu-west-1"));
                Some(Self::Sqs { queue_url: queue_url?, endpoint: endpoint?, region: region? })
            }
            "servicebus" => {
                let (connection, entity) = (table.read("servicebus", transport::servicebus), entity(&table));
                Some(Self::ServiceBus { connection: connection?, entity: entity? })
            }
            "amqp1" => {
                let (server, address) = (table.read("amqp1", transport::amqp1), transport::amqp1_node(&table));
                Some(Self::Amqp1 { server: server?, address: address? })
            }
            "redis" => {
                let (address, stream) =
                    (table.read("redis", transport::redis), require_name(&table, "stream", "shipping"));
                Some(Self::Redis { address: address?, stream: stream? })
            }
            "consumer" => {
                table.read("consumer", |node| text::label(node, "shipping")).map(|name| Self::Consumer { name })
            }
            other => unreachable!("{other} is no form of to"),
        }
    }
}

fn rabbitmq(table: &Table<'_>) -> Option<To> {
    let address = table.read("rabbitmq", transport::rabbitmq);
    let exchange = optional(table, "exchange", |node| match node.as_text() {
        Some("") => Ok(String::new()),
        _ => text::name(node, "orders"),
    });
    let routing_key = optional(table, "routing_key", |node| text::name(node, "shipping"));
    if exchange.as_ref().is_some_and(|exchange| exchange.as_deref().unwrap_or("").is_empty())
        && !table.has("routing_key")
    {
        table.fail_missing(
            "routing_key",
            "missing; the exchange \"\" routes by the name of a queue: write for example routing_key = \"shipping\"",
        );
    }
    Some(To::Rabbitmq { address: address?, exchange: exchange?.unwrap_or_default(), routing_key: routing_key? })
}

fn entity(table: &Table<'_>) -> Option<String> {
    match (table.has("queue"), table.has("topic")) {
        (true, false) => require_name(table, "queue", "shipping"),
        (false, true) => require_name(table, "topic", "shipping"),
        (both, _) => {
            let found = if both { "both queue and topic" } else { "neither queue nor topic" };
            table.fail(format!("names {found}; write one of them, such as queue = \"shipping\""));
            None
        }
    }
}

/// `[relay]`. `known` are the names of the destinations in the file.
pub(super) fn relay(node: &Node<'_>, known: &[&str]) -> Option<Relay> {
    let table = node.table("a table such as [relay]")?;
    table.refuse_unknown(&["destinations"]);
    let Some(list) = table.node("destinations") else { return Some(Relay { destinations: None }) };
    let expected = "a list of names such as [\"shipping\"]; without the key all destinations are relayed";
    let Some(items) = list.items().filter(|items| !items.is_empty()) else {
        list.fail(
            list.items()
                .map_or_else(|| list.mismatch(expected), |_| format!("expected {expected}, found an empty list")),
        );
        return None;
    };
    let names: Vec<Option<String>> = items.iter().map(|item| item.read(|item| known_name(item, known))).collect();
    Some(Relay { destinations: Some(names.into_iter().collect::<Option<_>>()?) })
}

fn known_name(node: &Node<'_>, known: &[&str]) -> Parsed<String> {
    let name = text::label(node, "shipping")?;
    if known.contains(&name.as_str()) {
        return Ok(name);
    }
    Err(match nearest(&name, known) {
        Some(near) => format!("there is no [destination.{name}] in this file; did you mean \"{near}\"?"),
        None => format!("there is no [destination.{name}] in this file; add it, or remove the name"),
    })
}
