//! The program's surface: what it says of itself, what it prints for scripts and for people, and what it reads.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use semel_tests::cli_world::{Counts, Kind, LIMIT, Letter, Place, World, fields, objects, until};
use semel_tests::on_both_stores;
use semel_tests::program::{Finished, Program};
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_semel-probed");

const VERBS: [&str; 12] = [
    "run",
    "check",
    "migrate",
    "schema",
    "status",
    "sweep",
    "explain",
    "forget",
    "dead list",
    "dead show",
    "dead replay",
    "dead discard",
];

async fn semel(words: &str) -> Finished {
    Program::new(PROGRAM).args(words.split_whitespace()).run(LIMIT).await
}

// ---- help and wrong use

#[tokio::test]
async fn every_verb_explains_itself_with_an_example() {
    for verb in VERBS {
        for help in [format!("{verb} --help"), format!("{verb} -h")] {
            let finished = semel(&help).await;
            assert_eq!((finished.code(), &*finished.stderr), (Some(0), ""), "{help}: {finished}");
            assert!(finished.stdout.contains("Usage: semel"), "{help}: {finished}");
            let (_, examples) =
                finished.stdout.split_once("Examples:\n").unwrap_or_else(|| panic!("{help}: no examples: {finished}"));
            assert!(examples.contains(&format!("semel {verb}")), "{help}: {finished}");
        }
    }
    for help in ["--help", "-h", "help", "help run", "help dead", "dead --help", "--version", "-V"] {
        let finished = semel(help).await;
        assert_eq!((finished.code(), &*finished.stderr), (Some(0), ""), "{help}: {finished}");
        assert!(finished.stdout.contains("semel"), "{help}: {finished}");
    }
    let help = semel("--help").await.stdout;
    for part in ["Examples:", "Exit codes: 0 done", "SEMEL_STORE", "SEMEL_LOG"] {
        assert!(help.contains(part), "{help}");
    }
}

/// The examples of the help texts are read by the parser: they fail for want of a store or a file, not as wrong use
/// of the words.
#[tokio::test]
async fn the_examples_of_the_help_are_right_words() {
    let nowhere = tempfile::tempdir().expect("a directory");
    for verb in VERBS.iter().copied().chain([""]) {
        let help = semel(&format!("{verb} --help")).await.stdout;
        let examples = help.split_once("Examples:\n").expect("examples").1.lines();
        for line in examples.take_while(|line| line.starts_with("  semel ")) {
            let command = line.split("   ").next().unwrap_or_default().trim().trim_start_matches("semel ");
            let command = command.split('|').next().unwrap_or_default();
            let finished =
                Program::new(PROGRAM).args(command.split_whitespace()).current_dir(nowhere.path()).run(LIMIT).await;
            assert!(
                !finished.stderr.contains("Usage:") && !finished.stderr.starts_with("error:"),
                "{line}: {finished}"
            );
        }
    }
}

#[tokio::test]
async fn wrong_use_is_exit_code_2_and_says_what_was_wrong() {
    for (words, part) in [
        ("", "Usage: "),
        ("frobnicate", "unrecognized subcommand 'frobnicate'"),
        ("rum", "'run'"),
        ("run --from-begin", "unexpected argument '--from-begin'"),
        ("run a.toml b.toml", "unexpected argument 'b.toml'"),
        ("run a.toml -f b.toml", "cannot be used with"),
        ("run --until-idle=soon", "expected a number of seconds, such as 5"),
        ("run --until-idle=-1", "expected a number of seconds from 0 on"),
        ("run --until-idle=NaN", "expected a number of seconds"),
        ("schema", "--dialect"),
        ("schema --dialect oracle", "[possible values: sqlite, postgres]"),
        ("explain", "ID"),
        ("explain a b c", "c"),
        ("forget payments", "<ID>"),
        ("dead", "dead <COMMAND>"),
        ("dead list --reason broken", "there is no reason \"broken\"; the reasons are undecodable, missing-id,"),
        ("dead show twelve", "invalid value 'twelve'"),
        ("dead show 99999999999999999999", "invalid value"),
        ("dead replay", "NUMBER"),
        ("dead discard", "NUMBER"),
        ("dead replay 1 --all", "cannot be used with"),
        ("dead discard 1 --reason failed", "cannot be used with"),
        ("send --to shipping", "unrecognized subcommand 'send'"),
    ] {
        let finished = semel(words).await;
        assert_eq!((finished.code(), &*finished.stdout), (Some(2), ""), "{words}: {finished}");
        assert!(finished.stderr.contains(part), "{words}: {part}: {finished}");
    }
}

/// Every verb that takes a configuration and a store.
const ON_A_STORE: [&str; 10] = [
    "check",
    "status",
    "status --json",
    "sweep",
    "explain a",
    "explain work a --json",
    "forget work a",
    "dead list",
    "dead show 1",
    "dead discard 1",
];

/// No configuration, a directory, or a file of something else: told before any store is looked for.
async fn a_wrong_configuration_is_exit_code_2_for_every_verb(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    world.write("empty.toml", "");
    for verb in ON_A_STORE.iter().copied().chain(["run", "migrate", "dead replay --all", "dead list --json"]) {
        for (file, part) in [
            ("none.toml", "none.toml: no such file; name another with -f FILE"),
            (".", ".: is a directory; name the file in it"),
            ("lines.jsonl", "lines.jsonl:1:1: not valid TOML"),
            ("empty.toml", "empty.toml: is empty; a small one to begin with:"),
        ] {
            let said = world.fails(2, &format!("{verb} -f {file}")).await;
            assert!(said.starts_with("semel: ") && said.contains(part), "{verb} {file}: {said}");
        }
    }
    if world.kind() == Kind::Sqlite {
        assert!(!world.path("store.db").exists(), "and nothing was made");
    }
}

/// Tables that nobody has made yet: each verb that looks says how to make them, and makes none by itself.
async fn on_an_empty_store_every_verb_but_run_and_migrate_says_what_is_missing(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    if world.kind() == Kind::Sqlite {
        world.write("store.db", "");
    }
    for verb in ON_A_STORE.iter().copied().chain(["dead replay 1", "dead replay --all"]) {
        let finished = world.command(verb).await;
        assert_eq!((finished.code(), &*finished.stdout), (Some(1), ""), "{verb}: {finished}");
        assert!(finished.stderr.contains("run `semel migrate`"), "{verb}: {finished}");
    }
    let tables = match world.kind() {
        Kind::Sqlite => "select count(*) from sqlite_schema",
        Kind::Postgres => "select count(*) from pg_namespace where nspname = 'semel'",
    };
    assert_eq!(world.store().count(tables).await, 0, "and none was made");
    let said = world.done("migrate").await;
    assert!(said.stderr.ends_with("the tables are up to date\n") && said.stdout.is_empty(), "{said}");
    assert_eq!(world.done("status").await.stdout.lines().count(), 2, "migrate has registered the consumer");
    assert_eq!(world.done("dead list").await.stderr, "no dead letters\n");
    assert_eq!(world.json("dead list").await, [Value::Null; 0]);
    let said = world.fails(1, "explain a").await;
    assert_eq!(
        said,
        "semel: no consumer knows anything of a: it never came, or it is older than the window and was swept\n"
    );
    let said = world.fails(1, "explain work a").await;
    assert_eq!(said, "semel: work knows nothing of a: it never came, or it is older than the window and was swept\n");
    world.done("sweep").await;
    world.done("check").await;
    world.done("migrate").await;
}

async fn check_names_each_fault_of_the_sql_with_its_handler_and_line(world: World) {
    world.configure("\
        [consumer.work]\nfrom = { file = \"lines.jsonl\" }\nid = \"body:/id\"\nkind = \"body:/do\"\ntime = \"body:/at\"\n\
        [consumer.work.on.good]\nsql = \"insert into effect (id) select id from messages\"\n\
        [consumer.work.on.table]\nsql = \"\"\"select 1;\ninsert into efect (id)\nselect id from messages\"\"\"\n\
        [consumer.work.on.column]\nsql = [\"select id from messages\", \"select idd from messages\"]\n\
        [consumer.work.on.syntax]\nsql = \"insert into effect (id) selec id from messages\"\n\
        [consumer.work.on.parameter]\nsql = \"insert into effect (id) values ($1)\"\n\
        [consumer.work.on.commit]\nsql = \"insert into effect (id) select id from messages; commit\"\n",
    );
    world.done("migrate").await;
    let said = world.fails(1, "check").await;
    for (kind, part) in [
        ("table", "efect"),
        ("column", "idd"),
        ("syntax", "syntax error"),
        ("parameter", "parameter"),
        ("commit", "COMMIT"),
    ] {
        if kind == "commit" && world.kind() == Kind::Sqlite {
            // Not seen by `check`: the commit hook refuses it when the handler runs.
            continue;
        }
        let line = said.lines().find(|line| line.contains(&format!("consumer.work.on.{kind:?}")));
        let line = line.unwrap_or_else(|| panic!("{kind} is not named: {said}"));
        assert!(line.to_lowercase().contains(&part.to_lowercase()), "{kind}: {line}");
    }
    assert!(!said.contains("\"good\""), "{said}");
    assert!(
        said.lines().any(|line| line.contains("on.\"table\"") && line.contains("line 2"))
            || world.kind() == Kind::Sqlite,
        "{said}"
    );

    world.configure_work("time = \"body:/at\"");
    let said = world.done("check").await;
    assert!(said.stderr.ends_with("semel.toml: all good\n") && said.stdout.is_empty(), "{said}");
    assert!(!said.stderr.contains("warning"), "{said}");
    world.configure_work("window = \"10m\"\nretry = { deferred = [\"1h\"] }");
    let said = world.done("check").await.stderr;
    for part in ["longer than the window of 10m", "a window of 10m forgets", "no `time` is set"] {
        assert!(said.contains("warning: consumer.work: ") && said.contains(part), "{part}: {said}");
    }
    assert_eq!(world.store().count("select count(*) from effect").await, 0, "nothing was run");
}

/// For people who run their own migrations.
async fn the_printed_schema_makes_an_empty_database_fit_to_run(world: World) {
    let dialect = if world.kind() == Kind::Sqlite { "sqlite" } else { "postgres" };
    let schema = world.done(&format!("schema --dialect {dialect}")).await;
    assert_eq!(schema.stderr, "");
    if world.kind() == Kind::Sqlite {
        world.write("store.db", "");
    }
    world.store().execute(&schema.stdout).await;
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    assert_eq!(world.json("status").await, [Value::Null; 0], "it is the whole schema: no migration is missing");
    assert_eq!(world.run("").await, Counts::processed(1));
    assert_eq!(world.run("--from-start").await, Counts::duplicates(1));
    world.done("migrate").await;
}

on_both_stores!(
    a_wrong_configuration_is_exit_code_2_for_every_verb,
    on_an_empty_store_every_verb_but_run_and_migrate_says_what_is_missing,
    check_names_each_fault_of_the_sql_with_its_handler_and_line,
    the_printed_schema_makes_an_empty_database_fit_to_run,
);

// ---- for scripts

async fn the_json_of_every_verb_has_the_documented_fields(world: World) {
    world.configure_work("key = \"body:/k\"\nretry = { immediate = 0, deferred = [\"1h\"] }\ntime = \"body:/at\"");
    world.write(
        "lines.jsonl",
        concat!(
            "{\"id\":\"a\",\"at\":\"2026-04-07T08:02:11.5+02:00\"}\n",
            "{\"id\":\"b\",\"k\":\"x\",\"fails\":9}\n",
            "{\"id\":\"a\",\"n\":1}\n",
            "{\"no\":\"c\"}\n",
        ),
    );
    assert_eq!(world.run("").await.received(), 4);

    let status = world.json("status").await;
    assert_eq!(status.len(), 1);
    assert_eq!(
        fields(&status[0]),
        [
            "consumer",
            "dead_letters",
            "due",
            "floor",
            "instances",
            "oldest",
            "positions",
            "remembered",
            "waiting",
            "window_seconds",
        ]
    );
    let expected = serde_json::json!({ "conflict": 1, "missing-id": 1 });
    assert_eq!((&status[0]["dead_letters"], &status[0]["remembered"]), (&expected, &2.into()));
    assert_eq!((&status[0]["waiting"], &status[0]["due"], &status[0]["floor"]), (&1.into(), &0.into(), &Value::Null));
    assert_eq!(
        (status[0]["window_seconds"].as_f64(), &status[0]["instances"]),
        (Some(604_800.0), &serde_json::json!([]))
    );
    let position = &status[0]["positions"][0];
    assert_eq!((fields(position), &position["source"]), (vec!["position", "source", "unit"], &"lines.jsonl".into()));

    let explained = world.json("explain work a").await;
    assert_eq!(explained.len(), 1);
    assert_eq!(fields(&explained[0]), ["claim", "consumer", "dead_letters", "id", "state", "waiting"]);
    assert_eq!(fields(&explained[0]["claim"]), ["claimed_at", "fingerprint", "time"]);
    assert_eq!(explained[0]["claim"]["time"], "2026-04-07T06:02:11.5Z", "in UTC");
    assert_eq!((&explained[0]["state"], &explained[0]["waiting"]), (&"done".into(), &Value::Null));
    let waiting = &world.json("explain b").await[0];
    assert_eq!(fields(&waiting["waiting"]), ["attempts", "due_at", "error", "key", "kind", "since"]);
    assert_eq!(
        (&waiting["state"], &waiting["waiting"]["key"], &waiting["waiting"]["kind"]),
        (&"waiting".into(), &"x".into(), &"task".into())
    );

    let letter_fields = [
        "attempts",
        "bytes",
        "consumer",
        "coordinates",
        "error",
        "first",
        "id",
        "key",
        "kind",
        "last",
        "number",
        "reason",
        "seen",
    ];
    let letters = world.json("dead list").await;
    assert_eq!(letters.len(), 2);
    for letter in &letters {
        assert_eq!(fields(letter), letter_fields);
        for time in ["first", "last"] {
            let text = letter[time].as_str().expect("a time");
            assert!(text.starts_with("20") && text.ends_with('Z'), "{letter}");
        }
    }
    let conflict = letters.iter().find(|letter| letter["reason"] == "conflict").expect("a conflict");
    let expected = serde_json::json!(["work", "a", "task", null, 0, 1, "lines.jsonl:3", 16]);
    let named = ["consumer", "id", "kind", "key", "attempts", "seen", "coordinates", "bytes"]
        .map(|name| conflict[name].clone());
    assert_eq!(serde_json::json!(named), expected);
    assert_eq!(explained[0]["dead_letters"], serde_json::json!([conflict]), "as `dead list` has it");

    let shown = &world.json(&format!("dead show {}", conflict["number"])).await[0];
    let mut shown_fields = [&letter_fields[..], &["headers", "body", "body_is_whole"]].concat();
    shown_fields.sort_unstable();
    assert_eq!(fields(shown), shown_fields);
    assert_eq!((&shown["body"], &shown["body_is_whole"]), (&"{\"id\":\"a\",\"n\":1}".into(), &true.into()));

    for (filter, found) in [
        ("--consumer work", 2),
        ("--consumer other", 0),
        ("--reason conflict", 1),
        ("--reason stale", 0),
        ("--id a", 1),
        ("--id lines.jsonl:4", 1),
        ("--id b", 0),
        ("--reason conflict --id a --consumer work", 1),
        ("--reason conflict --id x", 0),
    ] {
        assert_eq!(world.json(&format!("dead list {filter}")).await.len(), found, "{filter}");
    }
}

/// As `| head -1` does it, only that here the reader is gone for sure.
async fn a_reader_that_goes_away_is_no_error(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{}\n".repeat(150));
    let closed = |words: &str| {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(world.program());
        command.args(words.split_whitespace()).current_dir(world.directory()).env_remove("SEMEL_STORE");
        let output = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).output().expect("it runs");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    assert_eq!(closed("run --json"), (Some(0), String::new()), "run");
    assert_eq!(world.letters().await.len(), 150, "the run was done all the same");
    for words in [
        "dead list",
        "dead list --json",
        "dead show 1",
        "status",
        "status --json",
        "schema --dialect postgres",
        "--help",
        "run --help",
    ] {
        let (code, said) = closed(words);
        assert_eq!((code, &*said), (Some(0), ""), "{words}");
    }
    let head = Program::new("bash")
        .current_dir(world.directory())
        .args(["-c", &format!("'{}' dead list --json | head -1; echo ${{PIPESTATUS[0]}}", world.program().display())]);
    let head = head.run(LIMIT).await;
    let (line, code) = head.stdout.split_once('\n').expect("two lines");
    assert_eq!((objects(line).len(), code, &*head.stderr), (1, "0\n", ""), "{head}");
}

/// More than what is read from the store at once.
async fn a_long_list_is_whole_and_in_order(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", (0..1201).map(|n| format!("{{\"no\":\"{n}\"}}\n")).collect::<String>());
    assert_eq!(world.run("--no-brake").await, Counts::dead(1201));
    let listed = world.json("dead list").await;
    let numbers: Vec<i64> = listed.iter().filter_map(|letter| letter["number"].as_i64()).collect();
    assert_eq!(numbers.len(), 1201);
    assert!(numbers.is_sorted_by(|a, b| a < b), "oldest first, each once");
    let table = world.done("dead list").await.stdout;
    assert_eq!((table.lines().count(), table.matches("number  consumer").count()), (1202, 1));
    world.configure_work("id = \"body:/no\"");
    let said = world.done("dead replay --all").await.stderr;
    assert!(said.contains("1201 dead letters put back"), "{said}");
    assert_eq!(world.run("").await, Counts::processed(1201));
    assert_eq!(world.store().value("select count(*), count(distinct id) from effect").await, "1201|1201");
    world.check_places().await;
}

async fn a_disk_that_takes_no_output_is_named(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{}\n");
    for words in ["run --json", "run", "dead list", "dead list --json", "status", "schema --dialect sqlite"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let mut command = Command::new(world.program());
        command.args(words.split_whitespace()).current_dir(world.directory()).env_remove("SEMEL_STORE");
        let output = command.stdin(Stdio::null()).stdout(full).stderr(Stdio::piped()).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{words}: {said}");
        assert!(said.contains("semel: ") && said.contains("o space left on device"), "{words}: {said:?}");
    }
    assert_eq!(world.letters().await.len(), 1, "the run was done all the same");
}

/// Several consumers of one file: a line for each, and one that fails does not keep the others from finishing.
async fn several_consumers_have_a_line_each(world: World) {
    let work = semel_tests::cli_world::work("");
    let second = semel_tests::cli_world::work("from = { file = \"other.jsonl\" }")
        .replace("consumer.work", "consumer.a-longer-name");
    world.configure(&format!("{work}\n{second}"));
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    world.write("other.jsonl", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
    let counted = Counts::all_of(&world.done("run --json").await);
    assert_eq!(counted, [("work".into(), Counts::processed(1)), ("a-longer-name".into(), Counts::processed(2))]);
    let lines = world.done("run").await.stdout;
    let columns: Vec<Option<usize>> = lines.lines().map(|line| line.find("0 received")).collect();
    assert_eq!(columns, [Some(16), Some(16)], "{lines}");
    assert_eq!(Counts::all_of(&world.done("run --json --from-start").await).len(), 2);
    // The same id for each of them: the consumer's name is the scope.
    assert_eq!(world.json("explain a").await.len(), 2);

    std::fs::remove_file(world.path("other.jsonl")).expect("a file");
    world.append("lines.jsonl", "{\"id\":\"c\"}\n");
    let finished = world.command("run --json").await;
    assert_eq!(finished.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("other.jsonl does not exist"), "{finished}");
    let names: Vec<String> = Counts::all_of(&finished).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["work"], "only the one that did not fail");
}

on_both_stores!(
    the_json_of_every_verb_has_the_documented_fields,
    a_reader_that_goes_away_is_no_error,
    a_long_list_is_whole_and_in_order,
    a_disk_that_takes_no_output_is_named,
    several_consumers_have_a_line_each,
);

// ---- for people

/// Whether a terminal would do something at this text, other than show it.
fn obeys(text: &str) -> bool {
    text.chars().any(|c| c.is_control() && c != '\n')
}

async fn what_others_wrote_is_shown_and_not_obeyed(world: World) {
    world.configure_work(
        "kind = \"body:/do\"\nkey = \"body:/k\"\n[consumer.work.on.good]\nsql = \"insert into effect (id) select id from messages\"",
    );
    let evil = "\\u001b[2J\\u001b]0;owned\\u0007\\r\\n\\t\\u007f\\u009b31m\\u0085";
    world.write(
        "lines.jsonl",
        format!(
            "{{\"id\":\"done{evil}\",\"do\":\"good\"}}\n{{\"id\":\"done{evil}\",\"do\":\"good\",\"n\":1}}\n\
         {{\"id\":\"dead{evil}\",\"do\":\"bad{evil}\",\"k\":\"key{evil}\"}}\n"
        ),
    );
    let id = |name: &str| -> String { serde_json::from_str(&format!("\"{name}{evil}\"")).expect("a text") };
    let run = world.done("run").await;
    assert!(!obeys(&run.stdout) && !obeys(&run.stderr), "{run:?}");
    assert_eq!(
        (world.place(&id("done")).await, world.place(&id("dead")).await),
        (Place::Done, Place::Dead("no-handler".into()))
    );

    let number = world.json("dead list --reason no-handler").await[0]["number"].to_string();
    let (done, dead) = (id("done"), id("dead"));
    for words in [
        vec!["dead", "list"],
        vec!["dead", "show", &number],
        vec!["status"],
        vec!["explain", &done],
        vec!["explain", "work", &dead],
        vec!["explain", "work", &id("unknown")],
        vec!["explain", &id("unknown")],
        vec!["explain", &done, &dead],
        vec!["forget", "work", &dead],
        vec!["forget", "work", &id("unknown")],
        vec!["forget", &done, &dead],
        vec!["dead", "list", "--id", &dead],
        vec!["dead", "replay", &number, "--as", &done],
        vec!["dead", "list", "-f", &done],
    ] {
        let finished = world.semel(&words).run(LIMIT).await;
        assert!(!obeys(&finished.stdout) && !obeys(&finished.stderr), "{words:?}: {finished:?}");
    }
    let listed = world.done("dead list").await.stdout;
    assert!(listed.contains("dead\\u{1b}[2J\\u{1b}]0;owned\\u{7}\\r\\n\\t\\u{7f}\\u{9b}31m\\u{85}"), "{listed}");
    // In JSON an id is exact.
    assert_eq!(world.json("dead list --reason no-handler").await[0]["id"], dead);
    assert_eq!(
        world.semel(["forget", "work", &done]).run(LIMIT).await.code(),
        Some(0),
        "its conflict is another message"
    );
}

async fn a_hint_can_be_pasted_whatever_the_id_is(world: World) {
    for id in
        ["-1", "--json", "it's", "a b", "$(touch owned)", "`touch owned`", "*", "~", "!1", "é", "\\", "\"", "-- x", "#"]
    {
        world.configure_work("");
        let line = serde_json::json!({ "id": id, "fails": 1 });
        world.write("lines.jsonl", format!("{line}\n"));
        let finished = world.done("run").await;
        let line = finished.stderr.lines().rfind(|line| line.contains(":  ")).expect("a hint");
        let command = line.rsplit_once(":  ").map(|(_, command)| command.to_owned()).expect("a command");
        assert!(command.contains("explain"), "{id}: {finished}");
        let pasted = Program::new("sh").args(["-c", &command]).current_dir(world.directory()).run(LIMIT).await;
        assert_eq!(pasted.code(), Some(0), "{id}: {command}: {pasted}");
        assert!(pasted.stdout.contains("(failed)"), "{id}: {command}: {pasted}");
        assert!(!world.path("owned").exists(), "{id}: {command}");
        world.forget_messages().await;
    }
}

async fn ids_are_compared_byte_by_byte(world: World) {
    world.configure_work("");
    let long = "x".repeat(254);
    let ids = [
        "a",
        "A",
        "á",
        "a\u{301}",
        "a ",
        " a",
        "a\t",
        "a\n",
        "a\u{a0}",
        "ß",
        "ss",
        "ſ",
        "ﬀ",
        "ff",
        "1",
        "01",
        "1.0",
        "１",
        "i",
        "ı",
        "İ",
        "'; drop table effect; --",
        "\"",
        "\\",
        "%",
        "_",
        "a;b",
        "{}",
        "null",
        "true",
        "🍵",
        "🍵🍵",
        "\u{202e}rtl",
        "مرحبا",
        "שלום",
        "\u{200b}",
        "\u{feff}",
        "\u{fffd}",
        "\u{10ffff}",
        "NULL",
        "--",
        "-1",
        "$1",
        "?1",
        ":id",
        "@id",
        "x'00'",
        "\u{1}",
        "\u{7f}",
    ];
    let mut ids: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    ids.extend([format!("{long}y"), format!("{long}z")]);
    let file: String = ids.iter().map(|id| serde_json::json!({ "id": id }).to_string() + "\n").collect();
    world.write("lines.jsonl", &file);
    assert_eq!(world.run("").await, Counts::processed(ids.len() as u64));
    assert_eq!(world.run("--from-start").await, Counts::duplicates(ids.len() as u64));
    let mut expected = ids.clone();
    expected.sort();
    assert_eq!(world.effects_sorted().await, expected, "each of them, as it stands");
    for id in ["a", "a ", "'; drop table effect; --", "🍵", "\u{202e}rtl"] {
        assert_eq!(world.place(id).await, Place::Done, "{id:?}");
        let told = world.semel(["explain", "--json", "--", id]).run(LIMIT).await;
        assert_eq!(objects(&told.stdout)[0]["id"], id, "{told}");
    }
    let forgotten = world.semel(["forget", "work", "a"]).run(LIMIT).await;
    assert_eq!(forgotten.code(), Some(0), "{forgotten}");
    assert_eq!(
        world.run("--from-start").await,
        Counts { processed: 1, duplicates: ids.len() as u64 - 1, ..Counts::default() },
        "and no other"
    );
    world.check_places().await;
}

on_both_stores!(
    what_others_wrote_is_shown_and_not_obeyed,
    a_hint_can_be_pasted_whatever_the_id_is,
    ids_are_compared_byte_by_byte,
);

// ---- what is read

async fn stdin_is_read_to_its_end_and_its_repeats_are_known(world: World) {
    world.configure_work("from = { stdin = true }");
    let run = |input: &str| world.semel(["run", "--json"]).input(input).run(LIMIT);
    assert_eq!(
        Counts::of(&run("{\"id\":\"a\"}\n{\"id\":\"b\"}\n\n{\"id\":\"a\"}").await),
        Counts { processed: 2, duplicates: 1, ..Counts::default() }
    );
    assert_eq!(
        Counts::of(&run("{\"id\":\"a\"}\n{\"no\":1}\n").await),
        Counts { duplicates: 1, dead_lettered: 1, ..Counts::default() }
    );
    assert_eq!(Counts::of(&run("").await), Counts::default());
    assert_eq!(world.letters().await, [Letter::new("missing-id", "stdin:2")]);
    assert_eq!(world.store().rows("select source from semel.position").await, [""; 0], "it has no position");
    let piped = format!("printf '{{\"id\":\"c\"}}\\n' | '{}' run --json", world.program().display());
    let piped = Program::new("sh").args(["-c", &piped]).current_dir(world.directory()).run(LIMIT).await;
    assert_eq!(Counts::of(&piped), Counts::processed(1));
    let closed = format!("'{}' run --json <&-", world.program().display());
    let closed = Program::new("sh").args(["-c", &closed]).current_dir(world.directory()).run(LIMIT).await;
    assert!(matches!(closed.code(), Some(0 | 1)), "a closed stdin is no panic: {closed}");
    assert!(!closed.stderr.contains("panicked"), "{closed}");
}

/// What comes while the run lasts is processed while it lasts; a rotation and a signal lose nothing.
async fn a_followed_file_is_read_as_it_grows_through_a_rotation_and_ends_with_a_signal(world: World) {
    world.configure_work("from = { file = \"lines.jsonl\", follow = true }");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    let running = world.semel(["run", "--json"]).spawn();
    let done = async |count: usize| {
        // The table is made by the run itself.
        until(&format!("{count} are done"), async || {
            let made = match world.kind() {
                Kind::Sqlite => {
                    world.path("store.db").exists()
                        && world.store().rows("select 1 from sqlite_schema where name = 'effect'").await.len() == 1
                }
                Kind::Postgres => {
                    world.store().rows("select 1 from pg_class where relname = 'effect'").await.len() == 1
                }
            };
            made && world.effects().await.len() == count
        })
        .await;
    };
    done(1).await;
    world.append("lines.jsonl", "{\"id\":\"b\"}\n{\"id\":\"c\"");
    done(2).await;
    world.append("lines.jsonl", "}\n");
    done(3).await;

    std::fs::rename(world.path("lines.jsonl"), world.path("lines.jsonl.1")).expect("a rename");
    world.append("lines.jsonl.1", "{\"id\":\"d\"}\n");
    world.append("lines.jsonl", "{\"id\":\"e\"}\n");
    running.wait_for_line("lines.jsonl was replaced; reading it from its beginning", LIMIT).await;
    done(5).await;

    std::fs::write(world.path("lines.jsonl"), "{\"id\":\"f\"}\n").expect("truncated in place");
    world.append("lines.jsonl", "{\"id\":\"g\"}\n");
    done(7).await;

    running.sigterm();
    let finished = running.wait(LIMIT).await;
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert!(finished.stderr.contains("stopping: finishing what is in work"), "{finished}");
    assert_eq!(Counts::of(&finished), Counts::processed(7));
    assert_eq!(world.effects_sorted().await, ["a", "b", "c", "d", "e", "f", "g"]);
    world.check_places().await;
    world.append("lines.jsonl", "{\"id\":\"h\"}\n");
    assert_eq!(world.run("--until-idle=0.3").await, Counts::processed(1), "from where it was");
}

async fn until_idle_ends_a_followed_file_when_nothing_comes(world: World) {
    world.configure_work("from = { file = \"lines.jsonl\", follow = true }");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    let began = std::time::Instant::now();
    assert_eq!(world.run("--until-idle=1").await, Counts::processed(1));
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
    assert_eq!(world.run("--until-idle=0").await, Counts::default());
    // A file that ends ends at its end.
    world.configure_work("");
    let began = std::time::Instant::now();
    assert_eq!(world.run("--until-idle=20 --from-start").await, Counts::duplicates(1));
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
}

async fn a_line_is_what_stands_between_newlines(world: World) {
    world.configure_work("");
    world.write(
        "lines.jsonl",
        b"\xef\xbb\xbf{\"id\":\"bom\"}\r\n\r\n  \n\t\r\n{\"id\":\"crlf\"}\r\n{\"id\":\"no newline\"}",
    );
    assert_eq!(world.run("").await, Counts::processed(3));
    assert_eq!(world.run("").await, Counts::default());
    // Its newline comes, and nothing else.
    world.append("lines.jsonl", "\n");
    assert_eq!(world.run("").await, Counts::default());
    world.append("lines.jsonl", "{\"id\":\"later\"}");
    assert_eq!(world.run("").await, Counts::processed(1));
    // The last line was not complete when it was read.
    world.append("lines.jsonl", "{\"id\":\"x\"}");
    let grown = world.done("run --json").await;
    assert_eq!(Counts::of(&grown), Counts::dead(1), "two on one line are none");
    assert!(grown.stderr.contains("line 7 of lines.jsonl has grown since it was read; reading it again"), "{grown}");
    assert_eq!(world.effects_sorted().await, ["bom", "crlf", "later", "no newline"]);
    assert_eq!(world.run("--from-start").await, Counts::duplicates(4));
}

async fn a_body_that_is_no_body_for_a_database_is_kept_as_it_came(world: World) {
    world.configure_work("");
    let deep = format!("{{\"id\":\"deep\",\"x\":{}1{}}}", "[".repeat(10_000), "]".repeat(10_000));
    let digits = format!("{{\"id\":\"digits\",\"x\":0.{}}}", "7".repeat(1000));
    let huge = format!("{{\"id\":\"huge\",\"x\":{}}}", "7".repeat(1000));
    let exponent = "{\"id\":\"exponent\",\"x\":1e100000}".to_owned();
    let lines: Vec<(&[u8], &str)> = vec![
        (b"{\"id\":\"\xff\"}", "UTF-8"),
        (b"{\"id\":\"overlong \xc0\xaf\"}", "UTF-8"),
        (b"{\"id\":\"surrogate \xed\xa0\x80\"}", "UTF-8"),
        (b"{\"id\":\"nul\x00\"}", "control character"),
        (b"\x00\x00\x00\x00", "expected value"),
        (b"{\"id\":\"nul \\u0000\"}", "U+0000"),
        (b"{\"id\":\"lone \\udfff\"}", "surrogate"),
        (b"{\"id\":\"twice\",\"x\":{\"y\":1,\"y\":1}}", "one name twice"),
        (b"{\"id\":\"twice\",\"\\u0069d\":\"escaped\"}", "one name twice"),
        (b"{'id':'quotes'}", "key must be a string"),
        (b"{\"id\":\"comma\",}", "trailing comma"),
        (b"{\"id\":\"NaN\",\"x\":NaN}", "expected value"),
        (b"{\"id\":\"zero\",\"x\":007}", "invalid number"),
        (b"{\"id\":\"tab\ttab\"}", "control character"),
        (b"{\"id\":\"return\rreturn\"}", "control character"),
        (deep.as_bytes(), "recursion limit"),
        (digits.as_bytes(), "more than 400 digits"),
        (huge.as_bytes(), "number out of range"),
        (exponent.as_bytes(), ""),
    ];
    let file: Vec<&[u8]> = lines.iter().map(|(line, _)| *line).collect();
    world.write("lines.jsonl", file.join(&b'\n'));
    assert_eq!(world.run("").await, Counts::dead(lines.len() as u64));
    assert_eq!(world.run("--from-start").await, Counts::duplicates(lines.len() as u64));
    let body = if world.kind() == Kind::Sqlite { "hex(body)" } else { "upper(encode(body, 'hex'))" };
    for (at, (line, part)) in lines.iter().enumerate() {
        let place = format!("lines.jsonl:{}", at + 1);
        let stored =
            world.store().value(&format!("select {body} from semel.dead_letter where reference = '{place}'")).await;
        let hex: String = line.iter().map(|byte| format!("{byte:02X}")).collect();
        assert_eq!(stored, hex, "{place}: byte by byte");
        let letter = &world.json(&format!("dead list --id {place}")).await[0];
        assert_eq!(letter["reason"], "undecodable", "{letter}");
        assert!(letter["error"].as_str().is_some_and(|error| error.contains(part)), "{part}: {letter}");
    }
}

/// Numbers and texts reach the SQL as they were written.
async fn a_body_that_every_database_takes_arrives_whole(world: World) {
    world.configure_work(
        "[consumer.work.on.\"*\"]\nsql = \"insert into effect (id, note) select id, body->>'x' from messages\"",
    );
    let nested = format!("{}1{}", "[".repeat(100), "]".repeat(100));
    let text = "a \u{1f375} \u{301} \u{2028} \u{7f} \u{1} ' \" \\ ; -- /* $1 ?1";
    world.write("lines.jsonl", format!(
        "{{\"id\":\"big\",\"x\":{}}}\n{{\"id\":\"fraction\",\"x\":0.{}}}\n{{\"id\":\"text\",\"x\":{}}}\n{{\"id\":\"nested\",\"x\":{nested}}}\n\
         {{\"id\":\"none\"}}\n{{\"id\":\"null\",\"x\":null}}\n{{\"id\":\"empty\",\"x\":\"\"}}\n{{\"id\":\"long\",\"x\":\"{}\"}}\n",
        i64::MAX, "123456789012345", serde_json::json!(text), "y".repeat(100_000),
    ));
    assert_eq!(world.run("").await, Counts::processed(8));
    let note = async |id: &str| {
        world.store().value(&format!("select coalesce(note, '(null)') from effect where id = '{id}'")).await
    };
    assert_eq!(note("big").await, i64::MAX.to_string());
    assert_eq!(note("fraction").await, "0.123456789012345");
    assert_eq!(note("text").await, text);
    assert_eq!(note("nested").await.replace(' ', ""), nested);
    assert_eq!(
        (note("none").await, note("null").await, note("empty").await),
        ("(null)".into(), "(null)".into(), String::new())
    );
    assert_eq!(note("long").await.len(), 100_000);
}

/// The limit is of the body's bytes, and of a longer one the beginning is kept, with its length.
async fn a_body_over_the_limit_keeps_its_beginning_and_its_length(world: World) {
    let line = |length: usize, last: char| {
        let head = "{\"id\":\"long\",\"x\":\"";
        format!("{head}{}{last}\"}}", "x".repeat(length - head.len() - 3))
    };
    const LIMIT_BYTES: usize = 1024 * 1024;
    world.configure_work("");
    let (over, other) = (line(LIMIT_BYTES + 1, 'a'), line(LIMIT_BYTES + 1, 'b'));
    world.write("lines.jsonl", format!("{}\n{over}\n{other}\r\n", line(LIMIT_BYTES, 'a')));
    assert_eq!(world.run("").await, Counts { processed: 1, dead_lettered: 2, ..Counts::default() });
    assert_eq!(world.run("--from-start").await, Counts::duplicates(3));
    assert_eq!(
        world.store().rows("select length(body), body_length from semel.dead_letter order by number").await,
        ["65536|1048577", "65536|1048577"]
    );
    let number = world.json("dead list --id lines.jsonl:2").await[0]["number"].clone();
    let shown = &world.json(&format!("dead show {number}")).await[0];
    assert_eq!((&shown["bytes"], &shown["body_is_whole"]), (&1_048_577.into(), &false.into()));
    assert_eq!(shown["body"].as_str(), Some(&over[..65536]));
    assert_eq!(shown["error"], "the body has 1048577 bytes; the limit is 1048576 (max_body)");

    world.configure_work("max_body = \"2MiB\"");
    assert_eq!(
        world.run("--from-start").await,
        Counts { duplicates: 1, conflicts: 2, ..Counts::default() },
        "now they have an id"
    );
}

/// A position belongs to a file and not to its name; what was read before is known.
async fn a_file_that_was_replaced_or_cut_short_is_read_from_its_beginning(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n{\"id\":\"b\"}\n");
    assert_eq!(world.run("").await, Counts::processed(2));
    world.write("new.jsonl", "{\"id\":\"b\"}\n{\"id\":\"c\"}\n");
    std::fs::rename(world.path("new.jsonl"), world.path("lines.jsonl")).expect("a rename");
    let replaced = world.done("run --json").await;
    assert_eq!(Counts::of(&replaced), Counts { processed: 1, duplicates: 1, ..Counts::default() });
    assert_eq!(replaced.stderr, "lines.jsonl was replaced; reading it from its beginning\n");
    world.write("lines.jsonl", "{\"id\":\"d\"}\n");
    let cut = world.done("run --json").await;
    assert_eq!(Counts::of(&cut), Counts::processed(1));
    assert_eq!(cut.stderr, "lines.jsonl was cut short or written anew; reading it from its beginning\n");
    world.write("lines.jsonl", "");
    assert_eq!(world.run("").await, Counts::default());
    world.write("lines.jsonl", "{\"id\":\"e\"}\n");
    assert_eq!(world.run("").await, Counts::processed(1));
    assert_eq!(world.effects_sorted().await, ["a", "b", "c", "d", "e"]);

    std::fs::remove_file(world.path("lines.jsonl")).expect("a file");
    let gone = world.fails(1, "run").await;
    assert!(gone.contains("lines.jsonl does not exist"), "{gone}");
}

async fn a_pipe_at_the_path_is_read_once(world: World) {
    world.configure_work("");
    let made = Command::new("mkfifo").arg(world.path("lines.jsonl")).status().expect("mkfifo");
    assert!(made.success());
    let running = world.semel(["run", "--json"]).spawn();
    let path = world.path("lines.jsonl");
    let written = tokio::task::spawn_blocking(move || {
        let mut pipe = std::fs::OpenOptions::new().write(true).open(path)?;
        pipe.write_all(b"{\"id\":\"a\"}\n{\"id\":\"b\"}\n")
    });
    assert_eq!(Counts::of(&running.wait(LIMIT).await), Counts::processed(2));
    written.await.expect("the writer ends").expect("the pipe was read");
}

on_both_stores!(
    stdin_is_read_to_its_end_and_its_repeats_are_known,
    a_followed_file_is_read_as_it_grows_through_a_rotation_and_ends_with_a_signal,
    until_idle_ends_a_followed_file_when_nothing_comes,
    a_line_is_what_stands_between_newlines,
    a_body_that_is_no_body_for_a_database_is_kept_as_it_came,
    a_body_that_every_database_takes_arrives_whole,
    a_body_over_the_limit_keeps_its_beginning_and_its_length,
    a_file_that_was_replaced_or_cut_short_is_read_from_its_beginning,
    a_pipe_at_the_path_is_read_once,
);
