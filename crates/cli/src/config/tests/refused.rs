//! Faults, word by word.

use super::*;

#[test]
fn every_fault_of_a_bad_file_is_shown_at_once_with_line_key_and_remedy() {
    let text = r#"
stor = "postgres://me:hunter2@db/shop"
setup = ["none.sql", 7]
dashboard = true

[consumer.payments]
from = { rabbitmq = "hunter2", queue = "${QUEUE}" }
id = "=one"
lane = 4
lanes = 0
max_batch = 20_000
prefetch = 5
timeout = 30
window = "10 sconds"
retry = { imediate = 3, deferred = ["10s", "1.5h"] }
on_defer = "hold"
on_conflict = "dead_letter"
max_body = "1GiB"
fingerprint = ["account"]

[consumer.payments.on.payment.requested]
sql = "select 1"

[consumer."bad name"]
from = { file = "a.jsonl", kafka = "b:1" }
on = {}

[consumer.orders]
from = { kafka = "broker:9092", topic = "orders" }
kind = ["=a"]
time = "body:sent_at"
on."order.*" = { sql = "", body = "byte" }
on.pay = { post = "hunter2" }

[consumer.refunds]
from = { sqs = "${NO_SUCH}" }
id = ["header:id", "propert"]

[relay]
destinations = ["shiping"]

[destination.shipping]
to = { rabbitmq = "amqp://me:hunter2@mq" }
"#;
    let errors = read_with(text, &Built::all(), None).unwrap_err();
    assert!(!errors.contains("hunter2"), "{errors}");
    let expected = r##"
semel.toml:2: stor: unknown key; did you mean "store"?
semel.toml:3: setup[1]: expected a path such as "schema.sql", found an integer
semel.toml:4: dashboard: unknown key; the keys here are store, setup, consumer, relay and destination
semel.toml:7: consumer.payments.from.rabbitmq: expected the address of a server such as "amqp://localhost:5672", found another text
semel.toml:7: consumer.payments.from.queue: environment variables work in addresses and secrets only; expected a name such as "payments" as it is
semel.toml:8: consumer.payments.id: a fixed id would make all messages after the first duplicates; name the place of the producer's id, such as "body:/payment_id"
semel.toml:9: consumer.payments.lane: unknown key; did you mean "lanes"?
semel.toml:10: consumer.payments.lanes: expected a whole number from 1 to 256 such as 4, found 0
semel.toml:11: consumer.payments.max_batch: expected a whole number from 1 to 10000 such as 100, found 20000
semel.toml:13: consumer.payments.timeout: expected a duration with its unit (ms, s, m, h, d) such as "30s" or "1h30m", found an integer
semel.toml:14: consumer.payments.window: expected a duration with its unit (ms, s, m, h, d) such as "7d" or "1h30m", found "10 sconds"
semel.toml:15: consumer.payments.retry.imediate: unknown key; did you mean "immediate"?
semel.toml:15: consumer.payments.retry.deferred[1]: expected a duration with its unit (ms, s, m, h, d) such as "10s" or "1h30m", found "1.5h"
semel.toml:16: consumer.payments.on_defer: "hold" keeps the order of a key, and this consumer has no key; add one, such as key = "body:/account", or remove this line
semel.toml:17: consumer.payments.on_conflict: expected "dead-letter" or "ignore", found "dead_letter"; did you mean "dead-letter"?
semel.toml:18: consumer.payments.max_body: expected 1 byte to 256MiB, such as "1MiB", found "1GiB"
semel.toml:19: consumer.payments.fingerprint[0]: expected a JSON pointer such as "/account", found "account"; a JSON pointer begins with "/"
semel.toml:21: consumer.payments.on.payment: a kind with dots is quoted: [consumer.payments.on."payment.requested"]
semel.toml:24: consumer."bad name": a name has 1 to 100 letters of a to z, digits, ".", "_" and "-" and begins with a letter or a digit, such as [consumer.payments]
semel.toml:25: consumer."bad name".from: names more than one source: file and kafka; keep one, such as { file = "payments.jsonl" }
semel.toml:26: consumer."bad name".on: no handler, so that nothing could be processed; add [consumer."bad name".on."payment.requested"] with sql = "insert into seen (id) select id from messages", or on."*" for any kind
semel.toml:28: consumer.orders.id: missing; a Kafka record has no message id of its own: say where the producer's id is, such as id = "header:message-id"
semel.toml:29: consumer.orders.from.group: missing; write for example group = "payments"
semel.toml:30: consumer.orders.kind[0]: a fixed part has no place in a list; a fixed kind stands alone, such as kind = "=payment.requested"
semel.toml:31: consumer.orders.time: expected a place in the body such as "body:/sent_at", found "body:sent_at"; a JSON pointer begins with "/"
semel.toml:32: consumer.orders.on."order.*": there are no patterns of kinds; name one kind such as on."payment.requested", or use on."*" for all that have no handler of their own
semel.toml:32: consumer.orders.on."order.*".sql: expected SQL as text, such as "insert into seen (id) select id from messages", or { file = "pay.sql" }, of at most 1MiB and not empty
semel.toml:32: consumer.orders.on."order.*".body: expected "bytes" or "json", found "byte"; did you mean "bytes"?
semel.toml:33: consumer.orders.on.pay.post: expected the URL of an endpoint such as "https://billing.internal/payments", found another text
semel.toml:35: consumer.refunds.on: no handler, so that nothing could be processed; add [consumer.refunds.on."payment.requested"] with sql = "insert into seen (id) select id from messages", or on."*" for any kind
semel.toml:36: consumer.refunds.from.sqs: the environment variable NO_SUCH is not set
semel.toml:37: consumer.refunds.id[1]: expected "property", "header:NAME", "body:/POINTER", "cloudevents" or a list of them, such as "body:/payment_id", found "propert"; did you mean "property"?
semel.toml:40: relay.destinations[0]: there is no [destination.shiping] in this file; did you mean "shipping"?
semel.toml:43: destination.shipping.to.routing_key: missing; the exchange "" routes by the name of a queue: write for example routing_key = "shipping"
"##;
    assert_eq!(errors, expected.trim(), "\n{errors}\n");
}

#[test]
fn a_wrong_from_or_to_says_what_is_missing() {
    for (from, fault) in [
        ("{}", "c.from: names no source; use one of file, stdin, rabbitmq,"),
        ("{ rabitmq = 'amqp://x' }", "c.from.rabitmq: unknown key; did you mean \"rabbitmq\"?"),
        ("'a.jsonl'", "c.from: expected a table such as { file = \"payments.jsonl\" }, found a string"),
        ("{ rabbitmq = 'amqp://x' }", "c.from.queue: missing; write for example queue = \"payments\""),
        ("{ stdin = false }", "c.from.stdin: expected stdin = true"),
        ("{ stdin = true, follow = true }", "c.from.follow: stdin ends"),
        ("{ servicebus = 'Endpoint=sb://x', topic = 't' }", "c.from.subscription: missing"),
        (
            "{ servicebus = 'Endpoint=sb://x', queue = 'q', subscription = 's' }",
            "c.from.subscription: goes with a topic",
        ),
        ("{ servicebus = 'Endpoint=sb://x' }", "c.from: names neither queue nor topic"),
        ("{ webhook = '8080' }", "c.from.webhook: expected HOST:PORT/PATH"),
        ("{ webhook = 'h:8080', secret = 's' }", "c.from: verify and secret go together"),
        ("{ redis = 'redis://${EMPTY}', stream = 's', group = 'g' }", "c.from.redis: expected the address"),
        (
            "{ kafka = '${EMPTY}', topic = 't', group = 'g' }",
            "c.from.kafka: expected servers such as \"one:9092,two:9092\"; this one is empty",
        ),
        ("{ file = 'a' }", "c.id: a line has no properties and no headers"),
    ] {
        let error = read(&with_from(from)).unwrap_err();
        assert!(
            error.contains(&format!("semel.toml:3: consumer.{fault}"))
                || error.contains(&format!("semel.toml:4: consumer.{fault}")),
            "{from}: {error}"
        );
    }
    for (to, fault) in [
        ("{ stdin = true }", "d.to: stdin and webhook are sources only"),
        ("{ rabbitmq = 'amqp://x' }", "d.to.routing_key: missing; the exchange \"\" routes"),
        (
            "{ nats = 'http://x', subject = 's' }",
            "d.to.nats: expected the address of a server such as \"nats://localhost:4222\", found another text",
        ),
        ("{ kafka = 'a:1', topic = 't', group = 'g' }", "d.to.group: unknown key; the keys here are kafka and topic"),
    ] {
        let error = read(&with_to(to)).unwrap_err();
        assert!(error.contains(&format!("semel.toml:3: destination.{fault}")), "{to}: {error}");
    }
}

#[test]
fn parts_that_are_not_built_are_refused_by_name() {
    let built = Built::new(["sqlite", "file"]).not_yet(["kafka"]);
    let refused = |text: &str, store: Option<&str>| read_with(text, &built, store).unwrap_err();
    assert_eq!(
        refused(&with_from("{ rabbitmq = 'amqp://x', wrong = 1 }"), None),
        "semel.toml:3: consumer.c.from.rabbitmq: this program was built without RabbitMQ; build it with --features rabbitmq",
    );
    assert_eq!(
        refused(&with_from("{ kafka = 'x:1' }"), None),
        "semel.toml:3: consumer.c.from.kafka: this version of semel does not have Kafka yet",
    );
    assert_eq!(
        refused(&with_settings(""), None),
        "semel.toml:2: consumer.c.from: missing, and this version of semel does not have local delivery yet; \
         write for example from = { file = \"payments.jsonl\" }",
    );
    assert_eq!(
        refused("store = 'sqlite:a.db'\n[relay]\n[destination.d]\n", None),
        "semel.toml:2: relay: this version of semel does not have the relay yet\n\
         semel.toml:3: destination: this version of semel does not have destinations yet",
    );
    let handlers = "store = 'sqlite:a.db'\n[consumer.c]\nfrom = { stdin = true }\nid = 'body:/id'\nkind = 'body:/t'\n\
                    [consumer.c.on]\na = { post = 'http://x' }\nb = { exec = ['x'] }\nc = { sql = 'x', body = 'bytes' }\n";
    assert_eq!(
        refused(handlers, None),
        "semel.toml:7: consumer.c.on.a.post: this version of semel does not have post handlers yet\n\
         semel.toml:8: consumer.c.on.b.exec: this version of semel does not have exec handlers yet\n\
         semel.toml:9: consumer.c.on.c.body: this version of semel does not have bodies as bytes yet",
    );
    assert_eq!(
        refused(EXAMPLE, Some("postgres://me:hunter2@db")),
        "semel.toml: --store or SEMEL_STORE: this program was built without PostgreSQL; build it with --features postgres",
    );
    assert!(read(handlers).is_ok());
}

#[test]
fn an_id_is_asked_for_where_the_broker_has_none_of_the_producers() {
    for (from, needs_id) in [
        ("{ stdin = true }", true),
        ("{ kafka = 'x:1', topic = 't', group = 'g' }", true),
        ("{ sqs = 'https://x/q' }", true),
        ("{ redis = 'redis://x', stream = 's', group = 'g' }", true),
        ("{ webhook = 'x:1' }", true),
        ("{ webhook = 'x:1', verify = 'v', secret = 's' }", false),
        ("{ rabbitmq = 'amqp://x', queue = 'q' }", false),
        ("{ nats = 'nats://x', stream = 's', durable = 'd' }", false),
    ] {
        for id in ["", "id = 'property'\n", "id = ['cloudevents', 'property']\n"] {
            let result = read(&with_from(from).replace("id = \"header:id\"\n", id));
            assert_eq!(result.is_err(), needs_id, "{from} {id} {result:?}");
            if let Err(error) = result {
                assert!(error.contains("consumer.c.id: ") && error.contains("such as id = \""), "{error}");
            }
        }
    }
    // Local delivery has every property.
    assert_eq!(read(&with_settings("")).unwrap().consumers[0].id, Pick::Property);
}

#[test]
fn settings_have_limits_and_policies_follow_the_key() {
    for good in [
        "lanes = 256",
        "max_batch = 10_000",
        "prefetch = 0x64",
        "window = '1s'",
        "grace = '0s'",
        "max_body = '256MiB'",
        "retry = {}",
    ] {
        read(&with_settings(good)).unwrap();
    }
    for (bad, fault) in [
        ("lanes = 257", "lanes: expected a whole number from 1 to 256 such as 4, found 257"),
        (
            "lanes = -99999999999999999999",
            "lanes: expected a whole number from 1 to 256 such as 4, found a much smaller one",
        ),
        ("lanes = '4'", "lanes: expected a whole number from 1 to 256 such as 4, found a string"),
        (
            "prefetch = 99",
            "prefetch: expected at least max_batch, which is 100, such as 400 (lanes × max_batch), found 99",
        ),
        ("window = '999ms'", "window: expected at least \"1s\", such as \"7d\", found \"999ms\""),
        ("timeout = '8d'", "timeout: expected at most \"7d\", such as \"30s\", found \"8d\""),
        ("max_body = 268435457", "max_body: expected 1 byte to 256MiB, such as \"1MiB\", found 268435457"),
        ("retry = { immediate = 101 }", "retry.immediate: expected a whole number from 0 to 100 such as 3, found 101"),
    ] {
        assert_eq!(read(&with_settings(bad)).unwrap_err(), format!("semel.toml:3: consumer.c.{fault}"));
    }
    let many = format!("retry.deferred = [{}]", "'1s',".repeat(101));
    assert!(read(&with_settings(&many)).unwrap_err().contains("expected at most 100 durations"));
    let policy = |settings: &str| read(&with_settings(settings)).unwrap().consumers[0].on_defer;
    assert_eq!(policy(""), OnDefer::Pass);
    assert_eq!(policy("key = 'property'"), OnDefer::Hold);
    assert_eq!(policy("key = 'property'\non_defer = 'pass'"), OnDefer::Pass);
    assert_eq!(read(&with_settings("lanes = 2\nmax_batch = 7")).unwrap().consumers[0].prefetch, 14);
}
