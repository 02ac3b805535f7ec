//! Which parts of semel this program has.

use std::collections::BTreeSet;

/// How the lack of a part is explained.
#[derive(Clone, Copy)]
enum Lack {
    /// A feature of the build: the text names it.
    Feature,
    /// Not written yet.
    NotYet,
}

/// Every part that a configuration file can ask for: its name, its words in a sentence, and what its lack means.
const PARTS: &[(&str, &str, Lack)] = &[
    ("sqlite", "SQLite", Lack::Feature),
    ("postgres", "PostgreSQL", Lack::Feature),
    ("mysql", "MySQL", Lack::Feature),
    ("file", "files and stdin", Lack::Feature),
    ("rabbitmq", "RabbitMQ", Lack::Feature),
    ("kafka", "Kafka", Lack::Feature),
    ("nats", "NATS", Lack::Feature),
    ("sqs", "SQS", Lack::Feature),
    ("servicebus", "Service Bus", Lack::Feature),
    ("amqp1", "AMQP 1.0", Lack::Feature),
    ("redis", "Redis streams", Lack::Feature),
    ("webhook", "webhooks", Lack::NotYet),
    ("local", "local delivery", Lack::NotYet),
    ("relay", "the relay", Lack::NotYet),
    ("destination", "destinations", Lack::NotYet),
    ("post", "post handlers", Lack::NotYet),
    ("exec", "exec handlers", Lack::NotYet),
    ("bytes", "bodies as bytes", Lack::NotYet),
];

/// The set of parts that this program has, as its `main` knows from its features.
///
/// A file that asks for another part is refused by name, never read as if the part were there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Built {
    parts: BTreeSet<String>,
    not_yet: BTreeSet<String>,
}

impl Built {
    /// The parts that are there, of: `sqlite`, `postgres`, `mysql` (stores); `file` (and stdin), `rabbitmq`, `kafka`,
    /// `nats`, `sqs`, `servicebus`, `amqp1`, `redis`, `webhook`, `local` (where messages come from and go to); `relay`,
    /// `destination`, `post`, `exec`, `bytes`.
    pub(crate) fn new<N: Into<String>>(parts: impl IntoIterator<Item = N>) -> Self {
        Self { parts: parts.into_iter().map(Into::into).collect(), not_yet: BTreeSet::new() }
    }

    /// Names parts that no build of this version has, so that nobody is told of a feature that does not exist. Those
    /// that are never a feature (`webhook`, `local` and all after them) need no mention.
    pub(crate) fn not_yet<N: Into<String>>(mut self, parts: impl IntoIterator<Item = N>) -> Self {
        self.not_yet.extend(parts.into_iter().map(Into::into));
        self
    }

    /// Whether the part is there.
    pub(crate) fn has(&self, part: &str) -> bool {
        self.parts.contains(part)
    }

    /// `Err` with the sentence to show where the part is not there.
    pub(super) fn require(&self, part: &str) -> Result<(), String> {
        if self.has(part) {
            return Ok(());
        }
        let (words, lack) = PARTS
            .iter()
            .find(|(name, _, _)| *name == part)
            .map_or((part, Lack::NotYet), |(_, words, lack)| (*words, *lack));
        Err(match lack {
            Lack::Feature if !self.not_yet.contains(part) => {
                format!("this program was built without {words}; build it with --features {part}")
            }
            _ => format!("this version of semel does not have {words} yet"),
        })
    }

    /// Everything, for tests.
    #[cfg(test)]
    pub(super) fn all() -> Self {
        Self::new(PARTS.iter().map(|(name, _, _)| *name))
    }
}
