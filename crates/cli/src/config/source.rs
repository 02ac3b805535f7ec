//! `from`: where a consumer's messages come from.

use std::path::PathBuf;

use super::redact::{Address, Secret};
use super::text;
use super::transport::{self, Form, optional, require_name};
use super::tree::{Node, Table};

/// Where a consumer's messages come from. Paths are joined to the directory of the file that names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum From {
    /// A file with one JSON text a line.
    File {
        /// Where the file is. Whether it exists is not looked at.
        path: PathBuf,
        /// Whether to wait for more lines at its end.
        follow: bool,
    },
    /// One JSON text a line from the standard input.
    Stdin,
    /// A RabbitMQ queue.
    Rabbitmq {
        /// `amqp://…`
        address: Address,
        /// The queue's name.
        queue: String,
    },
    /// A Kafka topic.
    Kafka {
        /// `host:port,…`
        servers: Address,
        /// The topic's name.
        topic: String,
        /// The consumer group, which keeps the position.
        group: String,
    },
    /// A NATS JetStream stream.
    Nats {
        /// `nats://…`
        address: Address,
        /// The stream's name.
        stream: String,
        /// The durable consumer, which keeps the position.
        durable: String,
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
    /// An Azure Service Bus queue or subscription.
    ServiceBus {
        /// The connection string.
        connection: Address,
        /// Where in the namespace.
        entity: Subscribed,
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
        /// The consumer group, which keeps the position.
        group: String,
    },
    /// Requests of others.
    Webhook {
        /// `HOST:PORT/PATH` to listen at.
        listen: Address,
        /// How requests prove who sent them.
        verify: Option<Verify>,
    },
}

/// A place in a Service Bus namespace to receive from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subscribed {
    /// A queue.
    Queue(String),
    /// A subscription of a topic.
    Topic {
        /// The topic's name.
        topic: String,
        /// The subscription's name.
        subscription: String,
    },
}

/// How a webhook's requests are verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verify {
    /// The preset's name; it also says where the message id is.
    pub(crate) preset: String,
    /// The secret that signs.
    pub(crate) secret: Secret,
}

const FORMS: &[Form] = &[
    Form { name: "file", part: "file", keys: &["follow"] },
    Form { name: "stdin", part: "file", keys: &["follow"] },
    Form { name: "rabbitmq", part: "rabbitmq", keys: &["queue"] },
    Form { name: "kafka", part: "kafka", keys: &["topic", "group"] },
    Form { name: "nats", part: "nats", keys: &["stream", "durable"] },
    Form { name: "sqs", part: "sqs", keys: &["endpoint", "region"] },
    Form { name: "servicebus", part: "servicebus", keys: &["queue", "topic", "subscription"] },
    Form { name: "amqp1", part: "amqp1", keys: &["address"] },
    Form { name: "redis", part: "redis", keys: &["stream", "group"] },
    Form { name: "webhook", part: "webhook", keys: &["verify", "secret"] },
];

const EXAMPLE: &str = "{ file = \"payments.jsonl\" }";

impl From {
    pub(super) fn parse(node: &Node<'_>) -> Option<Self> {
        let table = node.table(&format!("a table such as {EXAMPLE}"))?;
        match transport::form(&table, FORMS, "source", EXAMPLE)?.name {
            "file" => file(&table),
            "stdin" => stdin(&table),
            "rabbitmq" => {
                let (address, queue) =
                    (table.read("rabbitmq", transport::rabbitmq), require_name(&table, "queue", "payments"));
                Some(Self::Rabbitmq { address: address?, queue: queue? })
            }
            "kafka" => {
                let servers = table.read("kafka", transport::kafka);
                let (topic, group) =
                    (require_name(&table, "topic", "payments"), require_name(&table, "group", "payments"));
                Some(Self::Kafka { servers: servers?, topic: topic?, group: group? })
            }
            "nats" => {
                let address = table.read("nats", transport::nats);
                let (stream, durable) =
                    (require_name(&table, "stream", "PAYMENTS"), require_name(&table, "durable", "payments"));
                Some(Self::Nats { address: address?, stream: stream?, durable: durable? })
            }
            "sqs" => {
                let queue_url = table.read("sqs", transport::sqs);
                let endpoint = optional(&table, "endpoint", transport::sqs_endpoint);
                let region = optional(&table, "region", |node| text::name(node, "eu-west-1"));
                Some(Self::Sqs { queue_url: queue_url?, endpoint: endpoint?, region: region? })
            }
            "servicebus" => {
                let (connection, entity) = (table.read("servicebus", transport::servicebus), subscribed(&table));
                Some(Self::ServiceBus { connection: connection?, entity: entity? })
            }
            "amqp1" => {
                let (server, address) = (table.read("amqp1", transport::amqp1), transport::amqp1_node(&table));
                Some(Self::Amqp1 { server: server?, address: address? })
            }
            "redis" => {
                let address = table.read("redis", transport::redis);
                let (stream, group) =
                    (require_name(&table, "stream", "payments"), require_name(&table, "group", "payments"));
                Some(Self::Redis { address: address?, stream: stream?, group: group? })
            }
            "webhook" => webhook(&table),
            other => unreachable!("{other} is no form of from"),
        }
    }
}

/// What is known of a source by its form alone, also where something else in it is wrong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    form: &'static str,
    has_preset: bool,
}

impl Origin {
    /// `None` where the form is in doubt or not built.
    pub(super) fn of(node: &Node<'_>) -> Option<Self> {
        if !node.is_table() {
            return None;
        }
        let table = node.table(EXAMPLE)?;
        let mut present = FORMS.iter().filter(|form| table.has(form.name));
        match (present.next(), present.next()) {
            (Some(form), None) if table.context.built().has(form.part) => {
                Some(Self { form: form.name, has_preset: table.has("verify") })
            }
            _ => None,
        }
    }

    /// Why messages from here have no id of the producer's in a place of the broker's own, and where the id may be
    /// instead; `None` where they have one.
    pub(super) fn lacks_id(self) -> Option<(&'static str, &'static str)> {
        match self.form {
            "file" | "stdin" => Some(("a line has no message id beside its text", "body:/payment_id")),
            "kafka" => Some(("a Kafka record has no message id of its own", "header:message-id")),
            "sqs" => Some(("SQS makes a new message id for every send, also of the same message", "header:message-id")),
            "redis" => Some(("Redis makes a new entry id for every add, also of the same message", "header:id")),
            "webhook" if !self.has_preset => {
                Some(("senders do not agree on a place for the id, and verify names no preset", "header:webhook-id"))
            }
            _ => None,
        }
    }

    /// Whether messages are lines: they have a body and nothing else.
    pub(super) fn is_lines(self) -> bool {
        matches!(self.form, "file" | "stdin")
    }
}

fn file(table: &Table<'_>) -> Option<From> {
    let path =
        table.read("file", |node| Ok(node.context.path(&text::expanded(node, "a path such as \"payments.jsonl\"")?)));
    let follow = optional(table, "follow", |node| node.boolean("true or false, such as follow = true"));
    Some(From::File { path: path?, follow: follow?.unwrap_or(false) })
}

fn stdin(table: &Table<'_>) -> Option<From> {
    if table.has("follow") {
        table.fail_at(
            "follow",
            "stdin ends when its writer closes it and cannot be followed; follow goes with file = \"PATH\"",
        );
    }
    table.read("stdin", |node| match node.boolean("stdin = true")? {
        true => Ok(From::Stdin),
        false => Err(node.mismatch("stdin = true, or another source such as file = \"payments.jsonl\"")),
    })
}

fn subscribed(table: &Table<'_>) -> Option<Subscribed> {
    match (table.has("queue"), table.has("topic")) {
        (true, false) => {
            if table.has("subscription") {
                table.fail_at(
                    "subscription",
                    "goes with a topic, not with a queue; write topic = \"payments\" or remove it",
                );
            }
            require_name(table, "queue", "payments").map(Subscribed::Queue)
        }
        (false, true) => {
            let (topic, subscription) =
                (require_name(table, "topic", "payments"), require_name(table, "subscription", "billing"));
            Some(Subscribed::Topic { topic: topic?, subscription: subscription? })
        }
        (both, _) => {
            let found = if both { "both queue and topic" } else { "neither queue nor topic" };
            table.fail(format!(
                "names {found}; write one of them, such as queue = \"payments\", or topic = \"payments\" \
                 with subscription = \"billing\""
            ));
            None
        }
    }
}

fn webhook(table: &Table<'_>) -> Option<From> {
    let listen = table.read("webhook", |node| {
        text::address(node, "HOST:PORT/PATH to listen at, such as \"0.0.0.0:8080/payments\"", |text| {
            text::is_host_and_port(text.split_once('/').map_or(text, |(host, _)| host))
        })
    });
    let preset = optional(table, "verify", |node| text::name(node, "standard-webhooks"));
    let secret = optional(table, "secret", text::secret);
    if table.has("verify") != table.has("secret") {
        table.fail(
            "verify and secret go together, such as verify = \"standard-webhooks\", secret = \"${WEBHOOK_SECRET}\"",
        );
    }
    let verify = preset?.zip(secret?).map(|(preset, secret)| Verify { preset, secret });
    Some(From::Webhook { listen: listen?, verify })
}
