//! Delivery, case by case: for every way that a message can go with a file as its source, what is counted, where the
//! message is afterwards, what the store holds, and what a second delivery does. On every store.
//!
//! | case of the table of deliveries | where |
//! |---|---|
//! | new · duplicate · conflict · undecodable · no id, bad id · future · unknown kind | [`every_case`] |
//! | over a limit · a failing handler · its key waits behind a deferred message | [`every_case`] |
//! | at or below the floor | [`what_is_older_than_what_was_swept_is_set_aside`] |
//! | a handler that rejects, panics, hides a database error | `library`: SQL alone can do none of these |
//! | killed the process n times | [`a_message_that_kills_the_process_ends_as_crashed`] |
//! | deadlock, serialization failure | [`what_the_database_ends_is_run_again_and_is_no_try`] (PostgreSQL; SQLite has one writer and knows neither) |
//! | twin in flight | [`a_twin_in_flight_is_held_and_ends_as_a_duplicate`] (PostgreSQL; on SQLite one writes at a time) |
//! | store unreachable | `bad_input.rs` |
//! | COMMIT answer lost | needs a network that loses it: with the proxy, not here |
//! | broker connection lost while handling | a file has no connection |

use std::panic::AssertUnwindSafe;
use std::time::{SystemTime, UNIX_EPOCH};

use semel_tests::cli_world::{Counts, Kind, LIMIT, Letter, Place, World, handler, until};
use semel_tests::on_both_stores;

/// One way that messages can go.
struct Case {
    /// For people.
    name: &'static str,
    /// Lines of the consumer's table.
    settings: String,
    /// What the file holds.
    lines: Vec<Vec<u8>>,
    /// What the first run counts.
    first: Counts,
    /// What reading it all again counts.
    again: Counts,
    /// Where the messages are, after both.
    places: Vec<(&'static str, Place)>,
    /// The dead letters, after both.
    letters: Vec<Letter>,
    /// What the handlers did, in any order.
    effects: Vec<&'static str>,
}

impl Case {
    fn new(name: &'static str, lines: &[&str]) -> Self {
        let lines = lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        let nothing = Counts::default();
        let settings = String::new();
        Self { name, settings, lines, first: nothing, again: nothing, places: vec![], letters: vec![], effects: vec![] }
    }

    fn with(self, settings: impl Into<String>) -> Self {
        Self { settings: settings.into(), ..self }
    }

    fn counts(self, first: Counts, again: Counts) -> Self {
        Self { first, again, ..self }
    }

    fn at(self, places: &[(&'static str, Place)]) -> Self {
        Self { places: places.to_vec(), ..self }
    }

    fn letters(self, letters: &[Letter]) -> Self {
        Self { letters: letters.to_vec(), ..self }
    }

    fn does(self, effects: &[&'static str]) -> Self {
        Self { effects: effects.to_vec(), ..self }
    }

    async fn happens(&self, world: &World) {
        world.configure_work(&self.settings);
        world.write("lines.jsonl", self.lines.join(&b'\n'));
        assert_eq!(world.run("").await, self.first, "the first delivery");
        assert_eq!(world.run("").await, Counts::default(), "what was read is not read again");
        assert_eq!(world.run("--from-start").await, self.again, "the second delivery");
        for (id, place) in &self.places {
            assert_eq!(world.place(id).await, *place, "{id}");
        }
        assert_eq!(world.letters().await, self.letters);
        assert_eq!(world.effects_sorted().await, self.effects);
        world.check_places().await;
        self.is_told_alike(world).await;
    }

    /// The program says of the first message what the store says.
    async fn is_told_alike(&self, world: &World) {
        for (id, place) in self.places.iter().take(1) {
            let state = match place {
                Place::Nowhere => continue,
                Place::Done => "done",
                Place::Waiting => "waiting",
                Place::Dead(_) => "dead",
            };
            let told = world.semel(["explain", "--json", "work", "--", id]).run(LIMIT).await;
            let told: serde_json::Value = serde_json::from_str(&told.stdout).expect("one object");
            assert_eq!((&told["state"], &told["id"]), (&state.into(), &(*id).into()), "{told}");
        }
    }
}

fn dead(reason: &str) -> Place {
    Place::Dead(reason.into())
}

fn counts(processed: u64, duplicates: u64, conflicts: u64, dead_lettered: u64, deferred: u64, ignored: u64) -> Counts {
    Counts { processed, duplicates, conflicts, dead_lettered, deferred, ignored }
}

#[rustfmt::skip]
fn cases(kind: Kind) -> Vec<Case> {
    let long_id = "x".repeat(256);
    let longest_id: &'static str = Box::leak("x".repeat(255).into_boxed_str());
    let longest = format!("{{\"id\":\"{longest_id}\"}}");
    let too_long = format!("{{\"id\":\"{long_id}\"}}");
    let slow = match kind {
        Kind::Postgres => "insert into effect (id) select id from messages where pg_sleep(20) is not null",
        Kind::Sqlite => "insert into effect (id) with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000000000) \
                         select max(i) from n",
    };
    vec![
        Case::new("new", &[r#"{"id":"a"}"#])
            .counts(Counts::processed(1), Counts::duplicates(1)).at(&[("a", Place::Done)]).does(&["a"]),
        Case::new("the same id and content again", &[r#"{"id":"a"}"#, r#"{"id":"a"}"#, r#"{"id":"b"}"#, r#"{"id":"a"}"#])
            .counts(counts(2, 2, 0, 0, 0, 0), Counts::duplicates(4)).at(&[("a", Place::Done), ("b", Place::Done)]).does(&["a", "b"]),
        Case::new("the same id with other content", &[r#"{"id":"a","n":1}"#, r#"{"id":"a","n":2}"#])
            .counts(counts(1, 0, 1, 0, 0, 0), Counts::duplicates(2))
            .at(&[("a", Place::Done)]).letters(&[Letter::new("conflict", "a").seen(2)]).does(&["a"]),
        Case::new("conflicts are ignored where the policy says so", &[r#"{"id":"a","n":1}"#, r#"{"id":"a","n":2}"#])
            .with("on_conflict = \"ignore\"")
            .counts(counts(1, 0, 1, 0, 0, 0), counts(0, 1, 1, 0, 0, 0)).at(&[("a", Place::Done)]).does(&["a"]),
        Case::new("bytes that differ are other content", &[r#"{"id":"a"}"#, r#"{ "id":"a"}"#])
            .counts(counts(1, 0, 1, 0, 0, 0), Counts::duplicates(2))
            .at(&[("a", Place::Done)]).letters(&[Letter::new("conflict", "a").seen(2)]).does(&["a"]),
        Case::new("what counts is at the fingerprint's pointers",
            &[r#"{"id":"a","n":1,"x":1}"#, r#"{"x":2,"n":1,"id":"a"}"#, r#"{"id":"a","n":2,"x":1}"#])
            .with("fingerprint = [\"/n\"]")
            .counts(counts(1, 1, 1, 0, 0, 0), Counts::duplicates(3))
            .at(&[("a", Place::Done)]).letters(&[Letter::new("conflict", "a").seen(2)]).does(&["a"]),
        Case::new("without a fingerprint an id is always the same message", &[r#"{"id":"a","n":1}"#, r#"{"id":"a","n":2}"#])
            .with("fingerprint = \"none\"")
            .counts(counts(1, 1, 0, 0, 0, 0), Counts::duplicates(2)).at(&[("a", Place::Done)]).does(&["a"]),

        Case::new("no JSON", &[r#"{"id":"a""#, r#"{"id":"b"}"#, "hello", r#"{"id":"c"} {}"#])
            .counts(counts(1, 0, 0, 3, 0, 0), Counts::duplicates(4))
            .at(&[("a", Place::Nowhere), ("b", Place::Done), ("c", Place::Nowhere)])
            .letters(&["lines.jsonl:1", "lines.jsonl:3", "lines.jsonl:4"].map(|place| Letter::new("undecodable", place).seen(2)))
            .does(&["b"]),
        Case::new("JSON that not every database reads alike is judged before its id",
            &[r#"{"id":"a","id":"b"}"#, r#"{"id":"","x":"\u0000"}"#, r#"{"id":"c","x":"\ud800"}"#])
            .counts(Counts::dead(3), Counts::duplicates(3))
            .letters(&["lines.jsonl:1", "lines.jsonl:2", "lines.jsonl:3"].map(|place| Letter::new("undecodable", place).seen(2))),
        Case::new("no id", &[r#"{"no":"a"}"#, r#"{"id":null}"#, r#"[1]"#, r#""a""#])
            .counts(Counts::dead(4), Counts::duplicates(4))
            .letters(&["lines.jsonl:1", "lines.jsonl:2", "lines.jsonl:3", "lines.jsonl:4"]
                .map(|place| Letter::new("missing-id", place).seen(2))),
        Case::new("a bad id", &[r#"{"id":""}"#, r#"{"id":true}"#, r#"{"id":1.5}"#, r#"{"id":["a"]}"#, &too_long])
            .counts(Counts::dead(5), Counts::duplicates(5))
            .letters(&["lines.jsonl:1", "lines.jsonl:2", "lines.jsonl:3", "lines.jsonl:4", "lines.jsonl:5"]
                .map(|place| Letter::new("invalid-id", place).seen(2))),
        Case::new("ids at their limits", &[r#"{"id":0}"#, r#"{"id":18446744073709551615}"#, r#"{"id":-1}"#, &longest])
            .counts(Counts::processed(4), Counts::duplicates(4))
            .at(&[("0", Place::Done), ("18446744073709551615", Place::Done), ("-1", Place::Done), (longest_id, Place::Done)])
            .does(&["-1", "0", "18446744073709551615", longest_id]),
        Case::new("the text of a number is the number", &[r#"{"id":7}"#, r#"{"id":"7"}"#])
            .with("fingerprint = \"none\"")
            .counts(counts(1, 1, 0, 0, 0, 0), Counts::duplicates(2)).at(&[("7", Place::Done)]).does(&["7"]),
        Case::new("joined ids do not run together",
            &[r#"{"shop":"ab","n":"c"}"#, r#"{"shop":"a","n":"bc"}"#, r#"{"shop":"ab","n":"c"}"#, r#"{"shop":"ab"}"#])
            .with("id = [\"body:/shop\", \"body:/n\"]")
            .counts(counts(2, 1, 0, 1, 0, 0), Counts::duplicates(4))
            .at(&[("2:ab1:c", Place::Done), ("1:a2:bc", Place::Done)])
            .letters(&[Letter::new("missing-id", "lines.jsonl:4").seen(2)]).does(&["1:a2:bc", "2:ab1:c"]),
        Case::new("CloudEvents: source and id, and the data is the body", &[
            r#"{"specversion":"1.0","source":"/till/1","id":"7","type":"paid","data":{"n":1}}"#,
            r#"{"specversion":"1.0","source":"/till/2","id":"7","type":"paid","data":{"n":1}}"#,
            r#"{"specversion":"1.0","source":"/till/1","id":"7","type":"paid","time":"2026-01-02T03:04:05Z","data":{"n":1}}"#,
            r#"{"specversion":"1.0","source":"/till/1","id":"7","type":"refunded","data":{"n":1}}"#,
            r#"{"id":"7"}"#,
        ])
            .with("id = \"cloudevents\"\nkind = \"cloudevents\"\n[consumer.work.on.paid]\n\
                   sql = \"insert into effect (id, note) select id, body->>'n' from messages\"\n[consumer.work.on.refunded]\n\
                   sql = \"insert into effect (id) select id from messages\"")
            // The envelope may change from copy to copy; the data and its type may not.
            .counts(counts(2, 1, 1, 1, 0, 0), Counts::duplicates(5))
            .at(&[("7:/till/11:7", Place::Done), ("7:/till/21:7", Place::Done)])
            .letters(&[Letter::new("conflict", "7:/till/11:7").seen(2), Letter::new("missing-id", "lines.jsonl:5").seen(2)])
            .does(&["7:/till/11:7", "7:/till/21:7"]),

        Case::new("from the future", &[r#"{"id":"a","at":"2999-01-01T00:00:00Z"}"#, r#"{"id":"b","at":"soon"}"#, r#"{"id":"c"}"#])
            .with("time = \"body:/at\"")
            .counts(counts(2, 0, 0, 1, 0, 0), Counts::duplicates(3))
            .at(&[("a", Place::Nowhere), ("b", Place::Done), ("c", Place::Done)])
            .letters(&[Letter::new("future", "a").seen(2)]).does(&["b", "c"]),
        Case::new("an id from the future", &[r#"{"id":"fff7f000-0000-7000-8000-000000000000"}"#, r#"{"id":"7ZZZZZZZZZ0000000000000000"}"#])
            .counts(Counts::dead(2), Counts::duplicates(2))
            .letters(&[
                Letter::new("future", "7ZZZZZZZZZ0000000000000000").seen(2),
                Letter::new("future", "fff7f000-0000-7000-8000-000000000000").seen(2),
            ]),
        Case::new("what is from the future is processed where the policy says so", &[r#"{"id":"a","at":"2999-01-01T00:00:00Z"}"#])
            .with("time = \"body:/at\"\non_stale = \"process\"")
            .counts(Counts::processed(1), Counts::duplicates(1)).at(&[("a", Place::Done)]).does(&["a"]),
        Case::new("as old as it wants to be, where nothing was ever swept", &[r#"{"id":"a","at":0}"#, r#"{"id":"b","at":"1066-10-14T09:00:00Z"}"#])
            .with("time = \"body:/at\"")
            .counts(Counts::processed(2), Counts::duplicates(2)).at(&[("a", Place::Done), ("b", Place::Done)]).does(&["a", "b"]),

        Case::new("a time outside of the calendar is no time", &[
            r#"{"id":"a","at":-9223372036854775808}"#, r#"{"id":"b","at":-62135596800001}"#, r#"{"id":"c","at":"-009999-01-02T00:00:00Z"}"#,
        ])
            .with("time = \"body:/at\"")
            .counts(Counts::processed(3), Counts::duplicates(3)).at(&[("a", Place::Done)]).does(&["a", "b", "c"]),

        Case::new("a kind that no handler takes", &[r#"{"id":"a","do":"pay"}"#, r#"{"id":"b","do":"Pay"}"#, r#"{"id":"c"}"#])
            .with("kind = \"body:/do\"\n[consumer.work.on.pay]\nsql = \"insert into effect (id) select id from messages\"")
            .counts(counts(1, 0, 0, 2, 0, 0), Counts::duplicates(3))
            .at(&[("a", Place::Done), ("b", dead("no-handler")), ("c", dead("no-handler"))])
            .letters(&[Letter::new("no-handler", "b"), Letter::new("no-handler", "c")]).does(&["a"]),
        Case::new("a kind that no handler takes is ignored where the policy says so", &[r#"{"id":"a","do":"pay"}"#, r#"{"id":"b","do":"play"}"#])
            .with("kind = \"body:/do\"\non_unknown_kind = \"ignore\"".to_owned() + &handler("pay", "insert into effect (id) select id from messages"))
            .counts(counts(1, 0, 0, 0, 0, 1), counts(0, 1, 0, 0, 0, 1))
            .at(&[("a", Place::Done), ("b", Place::Nowhere)]).does(&["a"]),
        Case::new("over the limit", &[r#"{"id":"a"}"#, r#"{"id":"b","x":"0123456789"}"#])
            .with("max_body = 20")
            .counts(counts(1, 0, 0, 1, 0, 0), Counts::duplicates(2))
            .at(&[("a", Place::Done), ("b", Place::Nowhere)])
            .letters(&[Letter::new("too-large", "lines.jsonl:2").seen(2)]).does(&["a"]),

        Case::new("a failure without a plan", &[r#"{"id":"a","fails":9}"#, r#"{"id":"b"}"#])
            .counts(counts(1, 0, 0, 1, 0, 0), Counts::duplicates(2))
            .at(&[("a", dead("failed")), ("b", Place::Done)]).letters(&[Letter::new("failed", "a").tried(1)]).does(&["b"]),
        Case::new("tries in place, and then one that works", &[r#"{"id":"a","fails":2}"#, r#"{"id":"b"}"#])
            .with("retry = { immediate = 2, deferred = [] }")
            .counts(Counts::processed(2), Counts::duplicates(2)).at(&[("a", Place::Done)]).does(&["a", "b"]),
        Case::new("tries in place, and then a dead letter", &[r#"{"id":"a","fails":3}"#, r#"{"id":"a","fails":3}"#])
            .with("retry = { immediate = 2, deferred = [] }")
            .counts(counts(0, 1, 0, 1, 0, 0), Counts::duplicates(2))
            .at(&[("a", dead("failed"))]).letters(&[Letter::new("failed", "a").tried(3)]),
        Case::new("deferred: the run does not wait, and a copy is a duplicate", &[r#"{"id":"a","fails":9}"#, r#"{"id":"b"}"#])
            .with("retry = { immediate = 1, deferred = [\"1h\"] }")
            .counts(counts(1, 0, 0, 0, 1, 0), Counts::duplicates(2))
            .at(&[("a", Place::Waiting), ("b", Place::Done)]).does(&["b"]),
        Case::new("other content under the id of one that waits", &[r#"{"id":"a","fails":9}"#, r#"{"id":"a"}"#])
            .with("retry = { immediate = 0, deferred = [\"1h\"] }\nlanes = 1\nmax_batch = 1")
            .counts(counts(0, 0, 1, 0, 1, 0), Counts::duplicates(2))
            .at(&[("a", Place::Waiting)]).letters(&[Letter::new("conflict", "a").seen(2)]),
        Case::new("behind a deferred message of its key", &[
            r#"{"id":"a","k":"x","fails":9}"#, r#"{"id":"b","k":"x"}"#, r#"{"id":"c","k":"y"}"#, r#"{"id":"d"}"#, r#"{"id":"e","k":"x"}"#,
        ])
            .with("key = \"body:/k\"\nretry = { immediate = 0, deferred = [\"1h\"] }")
            .counts(counts(2, 0, 0, 0, 3, 0), Counts::duplicates(5))
            .at(&[("a", Place::Waiting), ("b", Place::Waiting), ("c", Place::Done), ("d", Place::Done), ("e", Place::Waiting)])
            .does(&["c", "d"]),
        Case::new("past a deferred message of its key", &[r#"{"id":"a","k":"x","fails":9}"#, r#"{"id":"b","k":"x"}"#])
            .with("key = \"body:/k\"\non_defer = \"pass\"\nretry = { immediate = 0, deferred = [\"1h\"] }")
            .counts(counts(1, 0, 0, 0, 1, 0), Counts::duplicates(2))
            .at(&[("a", Place::Waiting), ("b", Place::Done)]).does(&["b"]),
        Case::new("over its time", &[r#"{"id":"a"}"#])
            .with(format!("timeout = \"100ms\"\n[consumer.work.on.\"*\"]\nsql = \"{slow}\""))
            .counts(Counts::dead(1), Counts::duplicates(1))
            .at(&[("a", dead("failed"))]).letters(&[Letter::new("failed", "a").tried(1)]),
        Case::new("all statements of a handler, or none", &[r#"{"id":"a"}"#, r#"{"id":"b","fails":9}"#])
            .with("[consumer.work.on.\"*\"]\nsql = [\"insert into effect (id, note) select id, 'first' from messages\",\n\
                   \"insert into effect (id, note) select case when body->>'fails' is null then id end, 'second' from messages\"]")
            .counts(counts(1, 0, 0, 1, 0, 0), Counts::duplicates(2))
            .at(&[("a", Place::Done), ("b", dead("failed"))]).letters(&[Letter::new("failed", "b").tried(1)]).does(&["a", "a"]),
        Case::new("one bad message of many goes alone", &[
            r#"{"id":"1"}"#, r#"{"id":"2"}"#, r#"{"id":"3"}"#, r#"{"id":"4","fails":9}"#, r#"{"id":"5"}"#, r#"{"id":"6"}"#, r#"{"id":"7"}"#,
        ])
            .with("lanes = 1\nmax_batch = 100")
            .counts(counts(6, 0, 0, 1, 0, 0), Counts::duplicates(7))
            .at(&[("4", dead("failed"))]).letters(&[Letter::new("failed", "4").tried(1)]).does(&["1", "2", "3", "5", "6", "7"]),
    ]
}

/// All cases, each in an empty store; those that went otherwise are listed together.
async fn every_case(world: World) {
    use std::future::Future;
    let mut wrong = Vec::new();
    world.configure_work("");
    world.done("migrate").await;
    for case in cases(world.kind()) {
        world.forget_messages().await;
        let mut happens = std::pin::pin!(case.happens(&world));
        let ended = std::future::poll_fn(|context| {
            std::panic::catch_unwind(AssertUnwindSafe(|| happens.as_mut().poll(context)))
                .map_or_else(|panic| std::task::Poll::Ready(Err(panic)), |polled| polled.map(Ok))
        });
        if let Err(panic) = ended.await {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            wrong.push(format!("== {}\n{}", case.name, text.unwrap_or_default()));
        }
    }
    assert!(wrong.is_empty(), "{} cases went otherwise:\n{}", wrong.len(), wrong.join("\n"));
}

async fn every_case_of_the_table_of_deliveries(world: World) {
    every_case(world).await;
}

on_both_stores!(every_case_of_the_table_of_deliveries);

fn now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock").as_millis()
}

/// The number of the only dead letter with this reason.
async fn number_of(world: &World, reason: &str) -> i64 {
    let listed = world.json(&format!("dead list --reason {reason}")).await;
    assert_eq!(listed.len(), 1, "{reason}: {listed:?}");
    listed[0]["number"].as_i64().expect("a number")
}

/// Sweep until this many ids are left.
async fn sweep_down_to(world: &World, left: u64) {
    until("the sweep", async || {
        world.done("sweep").await;
        world.store().count("select count(*) from semel.claim").await == left
    })
    .await;
}

async fn what_is_older_than_what_was_swept_is_set_aside(world: World) {
    let timed = "time = \"body:/at\"\nwindow = \"1s\"";
    world.configure_work(timed);
    let (at, early) = (now(), now() - 60_000);
    let lines =
        format!("{{\"id\":\"a\",\"at\":{at}}}\n{{\"id\":\"b\"}}\n{{\"id\":\"c\",\"at\":{early},\"fails\":9}}\n");
    world.write("lines.jsonl", &lines);
    assert_eq!(world.run("").await, counts(2, 0, 0, 1, 0, 0), "before the first sweep nothing is too old");
    sweep_down_to(&world, 1).await;
    assert_eq!(world.place("c").await, dead("failed"), "the claim of a dead letter stays");

    world.append("lines.jsonl", format!("{{\"id\":\"never seen\",\"at\":{early}}}\n"));
    assert_eq!(world.run("--from-start").await, counts(1, 1, 0, 2, 0, 0), "b carries no time and is new again");
    let letters = [Letter::new("failed", "c").tried(1), Letter::new("stale", "a"), Letter::new("stale", "never seen")];
    assert_eq!(world.letters().await, letters);
    assert_eq!((world.place("a").await, world.place("b").await), (Place::Nowhere, Place::Done));
    let again = world.run("--from-start").await;
    // `b` may have been swept meanwhile.
    assert_eq!((again.dead_lettered, again.processed + again.duplicates), (0, 4), "the same again: {again}");

    let letter = world.json("dead list --id a").await.remove(0);
    let refused = world.fails(1, &format!("dead replay {}", letter["number"])).await;
    assert!(refused.contains("it is stale: nobody can tell whether it was processed before"), "{refused}");
    assert!(refused.contains("use --force") && refused.contains("1 dead letter left as they were"), "{refused}");
    world.done(&format!("dead replay {} --force", letter["number"])).await;
    assert_eq!(world.place("a").await, Place::Waiting);
    assert_eq!(world.run("").await.processed, 1, "as it was asked for");
    assert_eq!(world.effects().await.iter().filter(|id| *id == "a").count(), 2);

    world.configure_work(&format!("{timed}\non_stale = \"process\""));
    world.append("lines.jsonl", format!("{{\"id\":\"another\",\"at\":{early}}}\n"));
    assert_eq!(world.run("").await, Counts::processed(1), "where the policy says so");
}

/// The deferred message becomes due while the run lasts: it is tried again in this run, and counts once, by how it
/// ends.
async fn a_deferral_that_becomes_due_while_the_run_lasts_keeps_the_order_of_its_key(world: World) {
    let lines =
        "{\"id\":\"a\",\"k\":1,\"fails\":1}\n{\"id\":\"b\",\"k\":1}\n{\"id\":\"x\",\"k\":2}\n{\"id\":\"c\",\"k\":1}\n";
    for (policy, order) in [("hold", ["a", "b", "c"]), ("pass", ["b", "c", "a"])] {
        world.configure_work(&format!(
            "from = {{ file = \"lines.jsonl\", follow = true }}\nkey = \"body:/k\"\non_defer = \"{policy}\"\n\
             retry = {{ immediate = 0, deferred = [\"1s\"] }}"
        ));
        world.write("lines.jsonl", lines);
        assert_eq!(world.run("--until-idle=3").await, Counts::processed(4), "{policy}");
        let done = world.effects().await;
        let of_key: Vec<&String> = done.iter().filter(|id| *id != "x").collect();
        assert_eq!(of_key, order, "{policy}");
        world.check_places().await;
        world.forget_messages().await;
    }
}

/// What waits from an earlier run is received by the one that takes it up.
async fn a_later_run_takes_up_what_waits_and_counts_it(world: World) {
    world.configure_work("key = \"body:/k\"\nretry = { immediate = 0, deferred = [\"1s\", \"1s\"] }");
    world.write("lines.jsonl", "{\"id\":\"a\",\"k\":1,\"fails\":2}\n{\"id\":\"b\",\"k\":1}\n");
    assert_eq!(world.run("").await, counts(0, 0, 0, 0, 2, 0));
    let waiting = world.json("explain a").await.remove(0);
    assert_eq!((&waiting["state"], &waiting["waiting"]["attempts"]), (&"waiting".into(), &1.into()), "{waiting}");
    let refused = world.fails(1, "forget work a").await;
    assert!(refused.contains("a waits in the inbox of work: it is not done, so it cannot be forgotten"), "{refused}");

    let mut taken_up = Vec::new();
    until("both are done", async || {
        taken_up.push(world.run("").await);
        world.effects().await.len() == 2
    })
    .await;
    taken_up.retain(|counts| *counts != Counts::default());
    assert_eq!(
        taken_up,
        [counts(0, 0, 0, 0, 1, 0), Counts::processed(2)],
        "the second try, then the third and what stood behind"
    );
    assert_eq!(world.effects().await, ["a", "b"]);
    world.check_places().await;
}

async fn a_mistyped_pointer_stops_the_run_before_all_is_set_aside_and_nothing_is_lost_by_it(world: World) {
    let lines: String = (0..250).map(|n| format!("{{\"payment\":\"p{n}\"}}\n")).collect();
    world.configure_work("");
    world.write("lines.jsonl", &lines);
    let said = world.fails(1, "run --json").await;
    assert!(said.contains("more than half of its last 200 messages ended as missing-id"), "{said}");
    assert_eq!(world.offset().await, 0, "the position did not move");
    let set_aside = world.letters().await.len();
    assert!((101..=250).contains(&set_aside), "{set_aside}");

    world.configure_work("id = \"body:/payment\"");
    world.done("dead replay --all --reason missing-id").await;
    assert_eq!(world.letters().await, []);
    let mended = world.run("").await;
    assert_eq!((mended.processed, mended.received()), (250, 250 + set_aside as u64), "{mended}");
    let mut expected: Vec<String> = (0..250).map(|n| format!("p{n}")).collect();
    expected.sort();
    assert_eq!(world.effects_sorted().await, expected, "each once");
    assert_eq!(world.offset().await, lines.len() as u64);
    world.check_places().await;
}

async fn without_the_brake_the_run_goes_on_to_the_end(world: World) {
    let lines: String = (0..250).map(|n| format!("{{\"payment\":\"p{n}\"}}\n")).collect();
    world.configure_work("");
    world.write("lines.jsonl", &lines);
    assert_eq!(world.run("--no-brake").await, Counts::dead(250));
    assert_eq!(world.offset().await, lines.len() as u64);
    assert_eq!(world.run("--from-start --no-brake").await, Counts::duplicates(250));
    assert_eq!(world.run("--from-start").await, Counts::duplicates(250), "duplicates do not pull the brake");
}

async fn what_is_no_refusal_does_not_pull_the_brake(world: World) {
    let file = |line: &dyn Fn(usize) -> String| (0..210).map(|n| line(n) + "\n").collect::<String>();
    world.configure_work("");
    world.write("lines.jsonl", file(&|n| format!("{{\"id\":\"{n}\"}}")));
    assert_eq!(world.run("").await, Counts::processed(210));
    world.write("lines.jsonl", file(&|n| format!("{{\"id\":\"{n}\",\"other\":true}}")));
    assert_eq!(world.run("").await, counts(0, 0, 210, 0, 0, 0), "conflicts");
    world.write("lines.jsonl", file(&|n| format!("{{\"id\":\"f{n}\",\"fails\":1}}")));
    assert_eq!(world.run("").await, Counts::dead(210), "a failing handler");
    world.write(
        "lines.jsonl",
        file(&|n| if n % 3 == 0 { format!("{{\"no\":{n}}}") } else { format!("{{\"id\":\"n{n}\"}}") }),
    );
    assert_eq!(world.run("").await, counts(140, 0, 0, 70, 0, 0), "a third");
    world.write("lines.jsonl", file(&|_| "{}".into()).split_inclusive('\n').take(199).collect::<String>());
    assert_eq!(world.run("").await.dead_lettered, 199, "fewer than are judged");
}

on_both_stores!(
    what_is_older_than_what_was_swept_is_set_aside,
    a_deferral_that_becomes_due_while_the_run_lasts_keeps_the_order_of_its_key,
    a_later_run_takes_up_what_waits_and_counts_it,
    a_mistyped_pointer_stops_the_run_before_all_is_set_aside_and_nothing_is_lost_by_it,
    without_the_brake_the_run_goes_on_to_the_end,
    what_is_no_refusal_does_not_pull_the_brake,
);

// ---- dead letters, by an operator's hand

async fn a_failed_message_is_replayed_when_its_cause_is_mended(world: World) {
    world.configure_work("window = \"1s\"");
    world.write("lines.jsonl", "{\"id\":\"a\",\"fails\":1}\n");
    assert_eq!(world.run("").await, Counts::dead(1));
    let refused = world.fails(1, "forget work a").await;
    assert!(refused.contains("a is a dead letter of work: use `dead replay` or `dead discard` first"), "{refused}");

    let number = number_of(&world, "failed").await;
    let said = world.done(&format!("dead replay {number}")).await.stderr;
    assert!(said.contains("1 dead letter put back: the next `run` takes them up"), "{said}");
    assert_eq!((world.place("a").await, world.letters().await), (Place::Waiting, vec![]));
    assert_eq!(world.run("").await, Counts::dead(1), "its plan begins anew, and ends as before");

    // Its claim is kept however long it lies, so it may be replayed at any age.
    let first = now();
    until("its window is over", async || now() > first + 1500).await;
    world.done("sweep").await;
    assert_eq!(world.place("a").await, dead("failed"));
    world.configure_work(
        "window = \"1s\"\n[consumer.work.on.\"*\"]\nsql = \"insert into effect (id) select id from messages\"",
    );
    let number = number_of(&world, "failed").await;
    world.done(&format!("dead replay {number}")).await;
    assert_eq!(world.run("").await, Counts::processed(1));
    assert_eq!((world.place("a").await, world.letters().await), (Place::Done, vec![]));
    assert_eq!(world.run("--from-start").await, Counts::duplicates(1), "its window began when it was done");
    assert_eq!(world.effects().await, ["a"]);
    let gone = world.fails(1, &format!("dead replay {number}")).await;
    assert!(
        gone.contains(&format!("there is no dead letter {number}; `dead list` shows those that there are")),
        "{gone}"
    );
}

async fn a_conflict_is_replayed_under_another_id_or_not_at_all(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\",\"n\":1}\n{\"id\":\"a\",\"n\":2}\n");
    assert_eq!(world.run("").await, counts(1, 0, 1, 0, 0, 0));
    let number = number_of(&world, "conflict").await;
    let refused = world.fails(1, &format!("dead replay {number}")).await;
    assert!(refused.contains("its id \"a\" is claimed by another message"), "{refused}");
    assert!(refused.contains("replay it with --as NEW-ID"), "{refused}");
    let refused = world.fails(1, &format!("dead replay {number} --as a")).await;
    assert!(refused.contains("its id \"a\" is claimed by another message"), "{refused}");
    assert_eq!(world.letters().await, [Letter::new("conflict", "a")], "nothing has changed");
    let bad_id = world.semel(["dead", "replay", &number.to_string(), "--as", ""]).run(LIMIT).await;
    assert!(bad_id.code() == Some(1) && bad_id.stderr.contains("the message id is empty"), "{bad_id}");
    let refused = world.fails(1, &format!("dead replay {number} --as {}", "x".repeat(256))).await;
    assert!(refused.contains("longer than 255 bytes"), "{refused}");
    for wrong in [format!("dead replay {number} 99 --as b"), "dead replay --all --as b".into(), "dead replay".into()] {
        world.fails(2, &wrong).await;
    }

    world.done(&format!("dead replay {number} --as a-2")).await;
    assert_eq!(world.run("").await, Counts::processed(1));
    assert_eq!((world.place("a").await, world.place("a-2").await), (Place::Done, Place::Done));
    assert_eq!(world.effects().await, ["a", "a-2"]);
    assert_eq!(
        world.run("--from-start").await,
        counts(0, 1, 1, 0, 0, 0),
        "under its own id it is a conflict as before"
    );
    world.check_places().await;
}

async fn a_conflict_takes_the_place_of_a_first_version_that_is_a_dead_letter_itself(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\",\"fails\":9}\n");
    assert_eq!(world.run("").await, Counts::dead(1));
    world.append("lines.jsonl", "{\"id\":\"a\"}\n");
    assert_eq!(world.run("").await, counts(0, 0, 1, 0, 0, 0));
    assert_eq!(world.letters().await, [Letter::new("conflict", "a"), Letter::new("failed", "a").tried(1)]);

    let number = number_of(&world, "conflict").await;
    world.done(&format!("dead replay {number}")).await;
    assert_eq!((world.place("a").await, world.letters().await), (Place::Waiting, vec![]), "the first version went");
    assert_eq!(world.run("").await, Counts::processed(1));
    assert_eq!(world.effects().await, ["a"]);
    assert_eq!(world.run("--from-start").await, counts(0, 1, 1, 0, 0, 0), "now the first version is the conflict");
    world.check_places().await;
}

async fn a_conflict_does_not_take_the_place_of_one_that_waits(world: World) {
    world.configure_work("retry = { immediate = 0, deferred = [\"1h\"] }\nlanes = 1");
    world.write("lines.jsonl", "{\"id\":\"a\",\"fails\":9}\n");
    assert_eq!(world.run("").await, counts(0, 0, 0, 0, 1, 0));
    world.append("lines.jsonl", "{\"id\":\"a\"}\n");
    assert_eq!(world.run("").await, counts(0, 0, 1, 0, 0, 0));
    let number = number_of(&world, "conflict").await;
    let refused = world.fails(1, &format!("dead replay {number}")).await;
    assert!(refused.contains("is claimed by another message"), "{refused}");
    assert_eq!((world.place("a").await, world.letters().await), (Place::Waiting, vec![Letter::new("conflict", "a")]));
}

async fn a_message_without_an_id_is_replayed_when_its_place_was_mended_or_it_is_given_one(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{\"no\":\"a\"}\n{\"other\":\"b\"}\n");
    assert_eq!(world.run("").await, Counts::dead(2));
    let refused = world.fails(1, "dead replay --all").await;
    assert_eq!(
        refused.matches("it is still missing-id: no message id at body:/id; mend the configuration").count(),
        2,
        "{refused}"
    );
    assert!(
        refused.contains("0 dead letters put back") && refused.contains("2 dead letters left as they were"),
        "{refused}"
    );

    world.configure_work("id = \"body:/no\"");
    let refused = world.fails(1, "dead replay --all").await;
    assert!(
        refused.contains("1 dead letter put back") && refused.contains("1 dead letter left as they were"),
        "{refused}"
    );
    let number = number_of(&world, "missing-id").await;
    world.done(&format!("dead replay {number} --as given")).await;
    assert_eq!(world.run("").await, Counts::processed(2));
    assert_eq!(world.effects_sorted().await, ["a", "given"]);
    assert_eq!((world.place("a").await, world.place("given").await), (Place::Done, Place::Done));
    assert_eq!(
        world.run("--from-start").await,
        counts(0, 1, 0, 1, 0, 0),
        "the line has no id of its own, and says nothing of the given one"
    );
}

async fn what_cannot_be_replayed_says_why(world: World) {
    world.configure_work("max_body = 30\nkind = \"body:/do\"\n[consumer.work.on.pay]\nsql = \"insert into effect (id) select id from messages\"");
    world.write(
        "lines.jsonl",
        concat!(
            "{\"id\":\"a\",\"do\":\"play\"}\n",
            "{\"id\":\"b\",\"do\":\"pay\",\"x\":\"0123456789\"}\n",
            "{\"id\":\"c\"\n",
        ),
    );
    assert_eq!(world.run("").await, Counts::dead(3));
    let (unknown, large, broken) = (
        number_of(&world, "no-handler").await,
        number_of(&world, "too-large").await,
        number_of(&world, "undecodable").await,
    );
    let refused = world.fails(1, &format!("dead replay {large}")).await;
    assert!(refused.contains("it is still too-large: the body has 38 bytes; the limit is 30 (max_body)"), "{refused}");
    let refused = world.fails(1, &format!("dead replay {broken} --as c")).await;
    assert!(refused.contains("it is still undecodable: the body is not JSON"), "{refused}");
    let refused = world.fails(1, &format!("dead replay {unknown} --as other")).await;
    assert!(refused.contains("it has an id and the claim of it; replay it without --as"), "{refused}");
    for verb in ["replay", "discard", "show"] {
        let refused = world.fails(1, &format!("dead {verb} 999999")).await;
        assert!(refused.contains("there is no dead letter 999999"), "{refused}");
    }
    assert_eq!(world.letters().await.len(), 3, "nothing has changed");

    // A message whose kind has a handler now.
    world.configure_work(
        "kind = \"body:/do\"\n[consumer.work.on.play]\nsql = \"insert into effect (id) select id from messages\"",
    );
    world.done(&format!("dead replay {unknown}")).await;
    assert_eq!(world.run("").await, Counts::processed(1));
    assert_eq!(world.place("a").await, Place::Done);

    // A limit that was raised: the whole body was kept, for it is short.
    world.configure_work(
        "kind = \"body:/do\"\n[consumer.work.on.pay]\nsql = \"insert into effect (id) select id from messages\"",
    );
    world.done(&format!("dead replay {large}")).await;
    assert_eq!(world.run("").await, Counts::processed(1));
    assert_eq!(world.place("b").await, Place::Done);
    // Of a long one only the beginning was.
    world.append("lines.jsonl", format!("{{\"id\":\"long\",\"do\":\"pay\",\"x\":\"{}\"}}\n", "y".repeat(1024 * 1024)));
    assert_eq!(world.run("").await, Counts::dead(1));
    let cut = number_of(&world, "too-large").await;
    let refused = world.fails(1, &format!("dead replay {cut} --as other")).await;
    assert!(
        refused.contains(
            "only the first 64 KiB of its 1048607 bytes were kept; raise max_body and let the producer send it again"
        ),
        "{refused}"
    );

    // A consumer that is not in the file has no place where its ids are.
    world.configure(&semel_tests::cli_world::work("").replace("consumer.work", "consumer.other"));
    let refused = world.fails(1, &format!("dead replay {broken}")).await;
    assert!(refused.contains("it belongs to consumer work, which is not in semel.toml"), "{refused}");
}

async fn discarding_keeps_the_id_where_there_was_a_claim(world: World) {
    world.configure_work("");
    world.write(
        "lines.jsonl",
        "{\"id\":\"a\",\"fails\":9}\n{\"no\":\"b\"}\n{\"id\":\"c\",\"n\":1}\n{\"id\":\"c\",\"n\":2}\n",
    );
    assert_eq!(world.run("").await, counts(1, 0, 1, 2, 0, 0));
    let said = world.done("dead discard --all --reason failed").await.stderr;
    assert!(said.contains("1 dead letter discarded"), "{said}");
    assert_eq!(world.place("a").await, Place::Done, "its claim stands alone: it is done with");
    world.done("dead discard --all").await;
    assert_eq!(world.letters().await, []);
    assert_eq!(world.run("--from-start").await, counts(0, 2, 1, 1, 0, 0), "without a claim it is set aside again");
    assert_eq!(world.effects().await, ["c"]);
    assert_eq!(
        world.done("dead discard --all --reason stale").await.stderr.lines().last(),
        Some("0 dead letters discarded")
    );
}

async fn only_what_is_done_can_be_forgotten_and_then_its_next_copy_is_new(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    assert_eq!(world.run("").await, Counts::processed(1));
    let said = world.done("forget work a").await.stderr;
    assert_eq!(said, "work has forgotten a: its next copy is processed as new\n");
    assert_eq!(world.place("a").await, Place::Nowhere);
    for (consumer, id) in [("work", "a"), ("work", "A"), ("nobody", "a")] {
        let said = world.fails(1, &format!("forget {consumer} {id}")).await;
        assert_eq!(said, format!("semel: {consumer} does not know {id}, so there is nothing to forget\n"));
    }
    assert_eq!(world.run("--from-start").await, Counts::processed(1));
    assert_eq!(world.effects().await, ["a", "a"]);
}

on_both_stores!(
    a_failed_message_is_replayed_when_its_cause_is_mended,
    a_conflict_is_replayed_under_another_id_or_not_at_all,
    a_conflict_takes_the_place_of_a_first_version_that_is_a_dead_letter_itself,
    a_conflict_does_not_take_the_place_of_one_that_waits,
    a_message_without_an_id_is_replayed_when_its_place_was_mended_or_it_is_given_one,
    what_cannot_be_replayed_says_why,
    discarding_keeps_the_id_where_there_was_a_claim,
    only_what_is_done_can_be_forgotten_and_then_its_next_copy_is_new,
);

// ---- what needs a particular moment

async fn a_message_that_kills_the_process_ends_as_crashed(world: World) {
    world.configure_work("max_crashes = 2");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    // The first death is nobody's fault yet: only from then on is written down who was at work.
    for _ in 0..3 {
        let killed = world.semel(["run", "--json"]).env("SEMEL_CRASH_AT", "after-handle").run(LIMIT).await;
        assert_eq!((killed.code(), &*killed.stdout), (None, ""), "{killed}");
    }
    world.append("lines.jsonl", "{\"id\":\"b\"}\n");
    assert_eq!(world.run("").await, counts(1, 0, 0, 1, 0, 0));
    assert_eq!((world.place("a").await, world.place("b").await), (dead("crashed"), Place::Done));
    assert_eq!(world.effects().await, ["b"]);
    world.check_places().await;
    assert_eq!(world.run("--from-start").await, Counts::duplicates(2));
    let number = number_of(&world, "crashed").await;
    world.done(&format!("dead replay {number}")).await;
    assert_eq!(world.run("").await, Counts::processed(1), "replayed, its crashes count no more");
}

on_both_stores!(a_message_that_kills_the_process_ends_as_crashed);

/// Handled with care after a crash: its attempt is written down, and ends when it is put behind a message of its key.
async fn a_message_that_goes_behind_another_one_has_no_open_attempt(world: World) {
    world
        .configure_work("key = \"body:/k\"\nlanes = 1\nmax_batch = 10\nretry = { immediate = 0, deferred = [\"1h\"] }");
    world.write(
        "lines.jsonl",
        "{\"id\":\"a\",\"k\":1,\"fails\":9}\n{\"id\":\"b\",\"k\":1}\n{\"id\":\"c\",\"k\":2,\"fails\":9}\n",
    );
    // The second run is careful, and dies when all three wait.
    for point in ["before-claim", "after-defer:2"] {
        let killed = world.semel(["run", "--json"]).env("SEMEL_CRASH_AT", point).run(LIMIT).await;
        assert_eq!(killed.code(), None, "{point}: {killed}");
    }
    for id in ["a", "b", "c"] {
        assert_eq!(world.place(id).await, Place::Waiting, "{id}");
    }
    assert_eq!(
        world.store().rows("select message_id from semel.attempt").await,
        [""; 0],
        "none of them was in its handler"
    );
    assert_eq!(world.run("").await, Counts::duplicates(3), "read again, for the position was not stored");
    world.check_places().await;
}

on_both_stores!(a_message_that_goes_behind_another_one_has_no_open_attempt);

/// On PostgreSQL only.
async fn on_postgresql() -> Option<World> {
    World::on_postgresql(env!("CARGO_BIN_EXE_semel-probed")).await
}

/// A sequence is not rolled back, so it counts how often the handler ran.
#[tokio::test]
async fn what_the_database_ends_is_run_again_and_is_no_try() {
    let Some(world) = on_postgresql().await else { return };
    for (code, endures) in [("40001", true), ("40P01", true), ("22012", false)] {
        world.configure_work(&format!(
            "[consumer.work.on.\"*\"]\nsql = \"\"\"do $$ begin if nextval('tries') < 4 then raise exception using errcode = '{code}'; \
             end if; end $$; insert into effect (id) select id from messages\"\"\""
        ));
        world.write("lines.jsonl", "{\"id\":\"a\"}\n");
        world.done("migrate").await;
        world.store().execute("drop sequence if exists tries; create sequence tries").await;
        let expected = if endures { Counts::processed(1) } else { Counts::dead(1) };
        assert_eq!(world.run("").await, expected, "{code}");
        let tries = world.store().count("select last_value from tries").await;
        assert_eq!(tries, if endures { 4 } else { 1 }, "{code}");
        world.check_places().await;
        world.forget_messages().await;
    }
}

/// One that never goes through is a failed try in the end, after ten re-runs.
#[tokio::test]
async fn what_the_database_ends_every_time_is_a_failed_try_after_ten_runs_more() {
    let Some(world) = on_postgresql().await else { return };
    world.configure_work(
        "[consumer.work.on.\"*\"]\nsql = \"\"\"do $$ begin perform nextval('tries'); raise exception using errcode = '40001'; end $$\"\"\"",
    );
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    world.done("migrate").await;
    world.store().execute("create sequence tries").await;
    assert_eq!(world.run("").await, Counts::dead(1));
    assert_eq!(world.store().count("select last_value from tries").await, 11);
    assert_eq!(world.letters().await, [Letter::new("failed", "a").tried(1)]);
}

/// Two runs of the program have the same message at the same time.
#[tokio::test]
async fn a_twin_in_flight_is_held_and_ends_as_a_duplicate() {
    use sqlx::Executor;
    let Some(world) = on_postgresql().await else { return };
    world.configure_work(
        "[consumer.work.on.\"*\"]\nsql = \"insert into effect (id) select id from messages where pg_advisory_xact_lock(7) is not null\"",
    );
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    world.done("migrate").await;
    let mut gate = world.store().connect_postgres().await;
    gate.execute("select pg_advisory_lock(7)").await.expect("a lock");
    let one = world.semel(["run", "--json"]).spawn();
    let waiting = |what: &str| format!("select count(*) from pg_locks where not granted and locktype = '{what}'");
    until("the first is in its handler", async || world.store().count(&waiting("advisory")).await == 1).await;
    let two = world.semel(["run", "--json"]).spawn();
    until("the second waits for the claim", async || world.store().count(&waiting("transactionid")).await == 1).await;
    gate.execute("select pg_advisory_unlock(7)").await.expect("the lock is ours");
    let (one, two) = tokio::join!(one.wait(LIMIT), two.wait(LIMIT));
    assert_eq!((Counts::of(&one), Counts::of(&two)), (Counts::processed(1), Counts::duplicates(1)));
    assert_eq!(world.effects().await, ["a"]);
    world.check_places().await;
}

// ---- what only code can do

/// The same table with handlers in Rust: they can also reject, panic, and hide an error of the database.
mod library {
    use super::*;
    use semel::{
        AckPermit, BrokerError, Consumer, Delivery, Envelope, HandlerError, HandlerResult, Identity, Message, Outcome,
        Pick, Postgres, ProcessError, Reason, RetryPlan, Semel, Settings, Settle, Settled, Setup, Sqlite, Store,
        Summary, Tx,
    };
    use serde::{Deserialize, Serialize};
    use sqlx::{PgConnection, SqliteConnection};
    use std::time::Duration;

    #[derive(Clone, Serialize, Deserialize)]
    struct Task {
        id: String,
        #[serde(rename = "do")]
        act: String,
    }
    impl Message for Task {
        const KIND: &'static str = "task";
    }

    /// What the handlers need of a database.
    trait Database: Store {
        fn write(conn: &mut Self::Conn, id: &str) -> impl Future<Output = sqlx::Result<()>> + Send;
        fn fail(conn: &mut Self::Conn) -> impl Future<Output = sqlx::Result<()>> + Send;
    }
    const BROKEN: &str = "insert into no_such_table values (1)";
    impl Database for Sqlite {
        async fn write(conn: &mut SqliteConnection, id: &str) -> sqlx::Result<()> {
            sqlx::query("insert into effect (id) values (?)").bind(id).execute(conn).await.map(drop)
        }
        async fn fail(conn: &mut SqliteConnection) -> sqlx::Result<()> {
            sqlx::query(BROKEN).execute(conn).await.map(drop)
        }
    }
    impl Database for Postgres {
        async fn write(conn: &mut PgConnection, id: &str) -> sqlx::Result<()> {
            sqlx::query("insert into effect (id) values ($1)").bind(id).execute(conn).await.map(drop)
        }
        async fn fail(conn: &mut PgConnection) -> sqlx::Result<()> {
            sqlx::query(BROKEN).execute(conn).await.map(drop)
        }
    }

    async fn act<S: Database>(tx: &mut Tx<'_, S>, task: Task) -> HandlerResult {
        S::write(tx.conn(), &task.id).await?;
        match &*task.act {
            "fail" => return Err(HandlerError::from_boxed("as asked")),
            "reject" => return Err(HandlerError::reject("as asked")),
            "later" => return Err(HandlerError::retry_after(Duration::from_secs(3600), "as asked")),
            "undecodable" => return Err(HandlerError::undecodable("as asked")),
            "panic" => panic!("as asked"),
            "sleep" => tokio::time::sleep(Duration::from_secs(3600)).await,
            "hide" => drop(S::fail(tx.conn()).await),
            _ => {}
        }
        Ok(())
    }

    async fn prepared<S: Store>(world: &World, store: S) -> Semel<S> {
        world.configure_work("");
        let sql = std::fs::read_to_string(world.path("effect.sql")).expect("a file");
        let semel = Semel::new(store);
        semel.migrate(&[Setup { name: "effect.sql".into(), sql }]).await.expect("tables");
        semel
    }

    fn summary(summary: &Summary) -> Counts {
        let Summary { received, processed, duplicates, conflicts, dead_lettered, deferred, ignored, .. } = summary;
        let counts = counts(*processed, *duplicates, *conflicts, *dead_lettered, *deferred, *ignored);
        assert_eq!(*received, counts.received());
        counts
    }

    async fn run<S: Database>(world: &World, semel: &Semel<S>, from_start: bool) -> Counts {
        let settings = Settings {
            identity: Identity {
                id: Pick::Body("/id".into()),
                kind: Pick::Fixed(Task::KIND.into()),
                key: None,
                ..Identity::default()
            },
            retry: RetryPlan { immediate: 1, deferred: Vec::new() },
            timeout: Duration::from_millis(300),
            from_start,
            ..Settings::default()
        };
        let source = semel::file::source(world.path("lines.jsonl")).named("lines.jsonl");
        let consumer = Consumer::named("work", semel.clone()).settings(settings).on::<Task>(act::<S>);
        summary(&consumer.run(source).await.expect("a run"))
    }

    async fn handlers_in_rust<S: Database>(world: World, semel: Semel<S>) {
        // On SQLite a statement that failed is undone alone, and its transaction goes on, as SQLite's do.
        let hidden_is_noticed = world.kind() == Kind::Postgres;
        let acts = ["fine", "fail", "reject", "later", "undecodable", "panic", "sleep", "hide"];
        let lines: String = acts.iter().map(|act| format!("{{\"id\":\"{act}\",\"do\":\"{act}\"}}\n")).collect();
        world.write("lines.jsonl", lines + "{\"id\":\"no task\"}\n");
        let (processed, dead_lettered) = if hidden_is_noticed { (1, 7) } else { (2, 6) };
        // A delay that the handler asks for takes the place of a try in place.
        assert_eq!(run(&world, &semel, false).await, counts(processed, 0, 0, dead_lettered, 1, 0));
        let again = run(&world, &semel, true).await;
        assert_eq!(again, Counts::duplicates(9));

        for (id, place) in [
            ("fine", Place::Done),
            ("fail", dead("failed")),
            ("reject", dead("rejected")),
            ("later", Place::Waiting),
            ("undecodable", Place::Nowhere),
            ("panic", dead("failed")),
            ("sleep", dead("failed")),
            ("hide", if hidden_is_noticed { dead("failed") } else { Place::Done }),
            ("no task", Place::Nowhere),
        ] {
            assert_eq!(world.place(id).await, place, "{id}");
        }
        let error = async |id: &str| {
            world.store().value(&format!("select error from semel.dead_letter where reference = '{id}'")).await
        };
        assert_eq!(error("reject").await, "as asked");
        assert_eq!(error("panic").await, "the handler panicked: as asked");
        assert_eq!(error("sleep").await, "the handler took longer than its limit of 300ms");
        assert_eq!(error("no task").await, "the body is not a task (line 1, column 16)");
        if hidden_is_noticed {
            assert!(error("hide").await.starts_with("the handler hid a database error"));
        }
        let tried = |reason: &str, id: &str, tries| Letter::new(reason, id).tried(tries);
        let mut letters = vec![
            tried("failed", "fail", 2),
            tried("failed", "panic", 2),
            tried("failed", "sleep", 2),
            tried("rejected", "reject", 1),
            tried("undecodable", "no task", 1).seen(2),
            tried("undecodable", "undecodable", 1).seen(2),
        ];
        if hidden_is_noticed {
            letters.push(tried("failed", "hide", 2));
        }
        letters.sort();
        assert_eq!(world.letters().await, letters);
        let effects: &[&str] = if hidden_is_noticed { &["fine"] } else { &["fine", "hide"] };
        assert_eq!(world.effects_sorted().await, effects, "what failed has left nothing");
        world.check_places().await;
    }

    async fn outcome<S: Database>(semel: &Semel<S>, envelope: &Envelope, act: &str) -> Result<Outcome, ProcessError> {
        let task = Task { id: envelope.id.clone().unwrap_or_default(), act: act.to_owned() };
        let permit = semel.process("work", envelope, async |tx| self::act::<S>(tx, task).await).await;
        permit.map(|permit| permit.outcome())
    }

    /// A loop of one's own: nothing is tried again, and nothing of what failed stays.
    async fn one_call<S: Database>(world: World, semel: Semel<S>) {
        let message = |id: &str, body: &str| Envelope::new(id, body);
        let a = message("a", "1");
        for act in ["fail", "reject", "later", "panic"] {
            let error = outcome(&semel, &a, act).await.expect_err(act);
            let fits = match act {
                "reject" => matches!(error, ProcessError::Rejected { .. }),
                "panic" => matches!(error, ProcessError::Panicked(_)),
                _ => matches!(error, ProcessError::Failed { .. }),
            };
            assert!(fits, "{act}: {error:?}");
            assert_eq!(world.place("a").await, Place::Nowhere, "{act}: the next delivery is the next try");
        }
        if world.kind() == Kind::Postgres {
            let error = outcome(&semel, &a, "hide").await.expect_err("hidden");
            assert!(error.to_string().contains("hid a database error"), "{error}");
        }
        assert_eq!(outcome(&semel, &a, "fine").await.unwrap(), Outcome::Processed);
        assert_eq!(outcome(&semel, &a, "fail").await.unwrap(), Outcome::Duplicate, "its work is not asked again");
        for _ in 0..2 {
            let other = outcome(&semel, &message("a", "2"), "fine").await.unwrap();
            assert!(matches!(other, Outcome::Conflict | Outcome::Duplicate), "{other:?}");
        }
        let nameless = Envelope { id: None, coordinates: Some("here:1".into()), ..message("", "x") };
        assert_eq!(outcome(&semel, &nameless, "fine").await.unwrap(), Outcome::DeadLettered(Reason::MissingId));
        assert_eq!(outcome(&semel, &nameless, "fine").await.unwrap(), Outcome::Duplicate, "its dead letter is there");
        assert_eq!(outcome(&semel, &message("", "x"), "fine").await.unwrap(), Outcome::DeadLettered(Reason::InvalidId));
        let far = "fff7f000-0000-7000-8000-000000000000";
        assert_eq!(outcome(&semel, &message(far, "x"), "fine").await.unwrap(), Outcome::DeadLettered(Reason::Future));
        let large = message("large", &"x".repeat(1024 * 1024 + 1));
        assert_eq!(outcome(&semel, &large, "fine").await.unwrap(), Outcome::DeadLettered(Reason::TooLarge));
        assert_eq!(world.effects().await, ["a"]);
        assert_eq!(world.letters().await.len(), 5);
        world.check_places().await;
    }

    /// Answers nothing, and tells what it was asked.
    struct Silent;
    impl Settle for Silent {
        async fn ack(self, _: AckPermit) -> Settled {
            Settled::Confirmed
        }
        async fn back(self, _: Duration) -> Settled {
            Settled::Confirmed
        }
    }

    async fn a_permit_fits_its_own_delivery<S: Database>(semel: Semel<S>) {
        let delivery = |id: &str| Delivery::new(Envelope::new(id, "x"), Silent);
        let (one, two) = (delivery("one"), delivery("two"));
        let permit = semel.process("work", &one, async |tx| Ok(S::write(tx.conn(), "one").await?)).await.expect("done");
        assert!(matches!(two.ack(permit).await, Err(BrokerError::WrongPermit)));
        let again = semel.process("work", &one, async |_| Ok(())).await.expect("known");
        assert_eq!(again.outcome(), Outcome::Duplicate);
        assert!(matches!(one.ack(again).await, Ok(Settled::Confirmed)));
    }

    macro_rules! with_each_store {
        ($(async fn $name:ident($world:ident, $semel:ident) $body:block)+) => {$(
            mod $name {
                use super::*;
                async fn test<S: Database>($world: World, $semel: Semel<S>) $body
                #[tokio::test]
                async fn on_sqlite() {
                    let world = World::on_sqlite(env!("CARGO_BIN_EXE_semel-probed"));
                    let semel = prepared(&world, Sqlite::open(world.path("store.db")).expect("a path")).await;
                    test(world, semel).await;
                }
                #[tokio::test]
                async fn on_postgresql() {
                    let Some(world) = super::super::on_postgresql().await else { return };
                    let semel = prepared(&world, Postgres::new(&world.address()).expect("a URL")).await;
                    test(world, semel).await;
                }
            }
        )+};
    }

    with_each_store! {
        async fn every_way_that_a_handler_can_end(world, semel) {
            handlers_in_rust(world, semel).await;
        }
        async fn one_call_answers_with_a_permit_or_changes_nothing(world, semel) {
            one_call(world, semel).await;
        }
        async fn a_permit_of_another_delivery_is_refused(world, semel) {
            a_permit_fits_its_own_delivery(semel).await;
            assert_eq!(world.effects().await, ["one"]);
        }
    }
}
