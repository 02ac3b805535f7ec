//! Whole files, good and bad.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::*;

mod refused;

/// A directory that is removed with its value.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("semel-config-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read_with(text: &str, built: &Built, store_override: Option<&str>) -> Result<Config, String> {
    let env = |name: &str| match name {
        "SECRET" => Some("hunter2".into()),
        "EMPTY" => Some("".into()),
        _ => None,
    };
    let inputs = Inputs { built, store_override: store_override.map(str::to_owned), env: &env };
    parse(text, Path::new("conf/semel.toml"), &inputs)
        .map_err(|errors| errors.to_string().replace("conf/semel.toml", "semel.toml"))
}

fn read(text: &str) -> Result<Config, String> {
    read_with(text, &Built::all(), None)
}

/// A consumer of a source in a file that is good otherwise.
fn with_from(from: &str) -> String {
    format!("store = \"sqlite:a.db\"\n[consumer.c]\nfrom = {from}\nid = \"header:id\"\non.\"*\".sql = \"select 1\"\n")
}

/// A destination in a file that is good otherwise.
fn with_to(to: &str) -> String {
    format!("store = \"sqlite:a.db\"\n[destination.d]\nto = {to}\n")
}

/// A consumer with settings in a file that is good otherwise.
fn with_settings(settings: &str) -> String {
    format!("store = \"sqlite:a.db\"\n[consumer.c]\n{settings}\non.\"*\".sql = \"select 1\"\n")
}

const DESIGN_SAMPLE: &str = r#"
store = "sqlite:tea-shop.db"                # sqlite:PATH
setup = ["schema.sql"]

[consumer.payments]
from      = { file = "payments.jsonl" }
id        = "body:/payment_id"
kind      = "body:/type"
key       = "body:/account"
time      = "body:/sent_at"
fingerprint = "body"
lanes     = 4
max_batch = 100
timeout   = "30s"
window    = "7d"
retry     = { immediate = 3, deferred = ["10s", "1m", "10m"] }
on_defer  = "hold"
on_conflict = "dead-letter"
on_stale  = "dead-letter"
prefetch  = 400
grace     = "30s"
max_body  = "1MiB"
max_crashes = 3

[consumer.payments.on."payment.requested"]
sql = """
insert into ledger (payment_id, account, amount)
select body->>'payment_id', body->>'account', cast(body->>'amount' as bigint) from messages
"""

[relay]

[destination.shipping]
to = { rabbitmq = "amqp://localhost:5672", exchange = "", routing_key = "shipping" }
"#;

#[test]
fn the_sample_of_the_design_is_read_and_says_the_defaults() {
    let directory = Directory::new();
    directory.write("schema.sql", "create table ledger (payment_id text)");
    let inputs = Inputs { built: &Built::all(), store_override: None, env: &|_| None };
    let config = load(&directory.write("semel.toml", DESIGN_SAMPLE), &inputs).unwrap();
    assert_eq!(config.store, StoreAddress::Sqlite(directory.path().join("tea-shop.db")));
    assert_eq!(config.setup[0].resolve(StoreKind::Sqlite), Ok(directory.path().join("schema.sql")));
    assert_eq!(config.relay, Some(Relay { destinations: None }));
    assert_eq!(config.destination("shipping"), Some(&config.destinations[0]));

    let sample = config.consumer("payments").unwrap();
    let pointer = |text: &str| Pick::Body(Pointer::parse(text).unwrap());
    let path = directory.path().join("payments.jsonl");
    assert_eq!(sample.from, Some(From::File { path: path.clone(), follow: false }));
    assert_eq!((&sample.id, &sample.time), (&pointer("/payment_id"), &Some(pointer("/sent_at"))));
    assert_eq!(sample.handlers[0].kind.as_deref(), Some("payment.requested"));
    assert_eq!(sample.retry.deferred, [10, 60, 600].map(Duration::from_secs));
    assert_eq!((sample.window, sample.max_body), (Duration::from_secs(604_800), 1_048_576));

    // Every setting of the sample is the default, so that a file without them means the same.
    let short: String = DESIGN_SAMPLE
        .lines()
        .filter(|line| {
            let settings = ["fi", "la", "max_", "tim", "win", "ret", "on_", "pre", "gr"];
            line.starts_with("time  ") || !settings.iter().any(|setting| line.starts_with(setting))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(!short.contains("lanes") && !short.contains("max_crashes"));
    let short = load(&directory.write("semel.toml", short), &inputs).unwrap();
    assert_eq!(&short.consumers[0], sample);
}

#[test]
fn every_form_of_from_and_to_is_read() {
    for from in [
        "{ rabbitmq = 'amqps://u:p@mq', queue = 'q' }",
        "{ kafka = 'one:9092,two:9092', topic = 't', group = 'g' }",
        "{ nats = 'nats://one,nats://two', stream = 'S', durable = 'd' }",
        "{ sqs = 'http://localhost/q' }",
        "{ sqs = 'http://localhost/q', endpoint = 'http://localhost:4566', region = 'eu-west-1' }",
        "{ servicebus = 'Endpoint=sb://x/;SharedAccessKey=k', queue = 'q' }",
        "{ servicebus = 'Endpoint=sb://x/;SharedAccessKey=k', topic = 't', subscription = 's' }",
        "{ amqp1 = 'amqp://x', address = 'q' }",
        "{ redis = 'redis://:${SECRET}@x', stream = 's', group = 'g' }",
        "{ webhook = '0.0.0.0:8080/in' }",
        "{ webhook = '[::]:8080', verify = 'standard-webhooks', secret = '${SECRET}' }",
    ] {
        let config = read(&with_from(from)).unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
    }
    for from in ["{ stdin = true }", "{ file = 'a', follow = true }"] {
        read(&with_from(from).replace("header:id", "body:/id")).unwrap();
    }
    for to in [
        "{ file = 'out.jsonl' }",
        "{ rabbitmq = 'amqp://mq', exchange = 'x' }",
        "{ rabbitmq = 'amqp://mq', routing_key = 'q' }",
        "{ kafka = 'one:9092', topic = 't' }",
        "{ nats = 'nats://one', subject = 'a.b' }",
        "{ sqs = 'https://x/q', region = 'r' }",
        "{ servicebus = 'Endpoint=sb://x/;SharedAccessKey=k', topic = 't' }",
        "{ amqp1 = 'amqps://x', address = 'q' }",
        "{ redis = 'rediss://x', stream = 's' }",
        "{ consumer = 'billing' }",
    ] {
        read(&with_to(to)).unwrap();
    }
}

#[test]
fn a_store_from_outside_wins_and_belongs_to_the_working_directory() {
    let built = Built::all();
    assert_eq!(read(EXAMPLE).unwrap().store, StoreAddress::Sqlite("conf/app.db".into()));
    let without = EXAMPLE.replace("store = \"sqlite:app.db\"", "");
    let unset = EXAMPLE.replace("sqlite:app.db", "${NO_SUCH}");
    for text in [EXAMPLE, &without, &unset] {
        let config = read_with(text, &built, Some("sqlite:other.db")).unwrap();
        assert_eq!(config.store, StoreAddress::Sqlite("other.db".into()));
    }
    assert_eq!(
        read(&without).unwrap_err(),
        "semel.toml: store: missing; write for example store = \"sqlite:app.db\", or give --store or SEMEL_STORE",
    );
    assert_eq!(read(&unset).unwrap_err(), "semel.toml:1: store: the environment variable NO_SUCH is not set");
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(store_override(some("a"), some("b")), some("a"));
    assert_eq!(store_override(None, some("b")), some("b"));
    assert_eq!(store_override(None, some("")), None);
}

#[test]
fn without_a_consumer_a_small_file_is_shown() {
    let error = read("store = \"sqlite:a.db\"\n").unwrap_err();
    assert_eq!(
        error,
        format!(
            "semel.toml: consumer: there is no consumer, so nothing would run; a small file with one:\n\n{EXAMPLE}"
        )
    );
    assert_eq!(
        read("store = \"sqlite:a.db\"\n[consumers.a]\n").unwrap_err(),
        "semel.toml:2: consumers: unknown key; did you mean \"consumer\"?"
    );
    assert!(read(EXAMPLE).is_ok());
    assert!(read("store = \"sqlite:a.db\"\n[relay]\n").is_ok(), "a process may only relay");
}

#[test]
fn what_stands_before_the_first_key_gets_one_sentence() {
    let directory = Directory::new();
    let inputs = Inputs { built: &Built::all(), store_override: None, env: &|_| None };
    let error = |path: PathBuf| {
        let text = load(&path, &inputs).unwrap_err().to_string();
        text.replace(&format!("{}/", directory.path().display()), "")
            .replace(&directory.path().display().to_string(), "DIR")
    };
    assert_eq!(
        error(directory.path().join("none.toml")),
        "none.toml: no such file; name another with -f FILE (`semel run FILE`), or make one: \
         the default is semel.toml in the working directory",
    );
    assert_eq!(error(directory.path().to_owned()), "DIR: is a directory; name the file in it, such as -f semel.toml");
    for empty in ["", "\u{feff}", " \r\n# nothing\n"] {
        assert!(
            error(directory.write("a.toml", empty))
                .starts_with("a.toml: is empty; a small one to begin with:\n\nstore ="),
            "{empty:?}"
        );
    }
    assert_eq!(
        error(directory.write("a.toml", b"a = 1\nb = \"\xff\"")),
        "a.toml: is not UTF-8 text: the first wrong byte is in line 2; save it as UTF-8",
    );
    assert_eq!(error(directory.write("a.toml", b"\xff\xfea\0=\0")), "a.toml: is UTF-16 text; save it as UTF-8");
    assert_eq!(
        error(
            directory.write("a.toml", "\u{feff}store = postgres://me:hunter2@db\r\n[consumer.a]\r\n[consumer.a]\r\n")
        ),
        "a.toml:1:9: not valid TOML: a text is written in quotes, such as store = \"sqlite:app.db\"\n\
         a.toml:3:11: this key or table is in the file twice; keep one of the two",
    );
    let good = format!("\u{feff}{}", EXAMPLE.replace('\n', "\r\n"));
    assert_eq!(load(&directory.write("a.toml", good), &inputs).unwrap().consumers.len(), 1);
}
