//! What a person gets wrong, and what a machine does to them: each has one clear sentence, the right exit code, and
//! loses nothing. Neither payloads nor passwords are in what is printed.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::time::Duration;

use semel_tests::cli_world::{
    Counts, Kind, LIMIT, Place, SmallDisk, World, as_user, handler, sqlite_rows, until, work,
};
use semel_tests::on_both_stores;
use semel_tests::postgres::server;
use semel_tests::program::Finished;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

const PROGRAM: &str = env!("CARGO_BIN_EXE_semel-probed");

/// Stands in payloads and passwords, and nowhere in what is printed.
const SECRET: &str = "hunter2-xyzzy-4711";

fn on_sqlite() -> World {
    World::on_sqlite(PROGRAM)
}

async fn on_postgresql() -> Option<World> {
    World::on_postgresql(PROGRAM).await
}

/// A complaint of one line.
fn is_one_sentence(said: &str) {
    // SEMEL_LOG=trace lets others speak before it.
    let lines: Vec<&str> = said.lines().filter(|line| !line.contains(" DEBUG ") && !line.contains(" TRACE ")).collect();
    assert!(matches!(&lines[..], [line] if line.starts_with("semel: ") && line.len() < 400), "{said}");
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("permissions can be set");
}

// ---- the configuration

#[tokio::test]
async fn all_faults_of_a_file_are_told_at_once_each_with_its_line_and_a_remedy() {
    let world = on_sqlite();
    world.write("semel.toml", format!(
        "stor = \"postgres://me:{SECRET}@db/shop\"\n[consumer.work]\nfrom = {{ file = \"lines.jsonl\" }}\nid = \"body:id\"\nlanes = 0\n\
         retry = {{ imediate = 3 }}\n[consumer.work.on.pay.now]\nsql = \"select 1\"\n"
    ));
    let expected = "\
semel: semel.toml:1: stor: unknown key; did you mean \"store\"?
semel.toml:4: consumer.work.id: expected a place in the body such as \"body:/payment_id\", found \"body:id\"; a JSON pointer begins with \"/\"
semel.toml:5: consumer.work.lanes: expected a whole number from 1 to 256 such as 4, found 0
semel.toml:6: consumer.work.retry.imediate: unknown key; did you mean \"immediate\"?
semel.toml:7: consumer.work.on.pay: a kind with dots is quoted: [consumer.work.on.\"pay.now\"]
";
    for verb in ["run", "check", "status", "dead list --json"] {
        assert_eq!(world.fails(2, &format!("{verb} -f semel.toml")).await, expected, "{verb}");
    }
}

#[tokio::test]
async fn parts_that_this_version_does_not_have_are_refused_by_name() {
    let world = on_sqlite();
    let handler = "[consumer.work.on.\"*\"]\nsql = \"select 1\"\n";
    for (text, part) in [
        (
            "from = { rabbitmq = \"amqp://mq\", queue = \"q\" }",
            "semel.toml:3: consumer.work.from.rabbitmq: this version of semel does not have RabbitMQ yet",
        ),
        (
            "from = { kafka = \"k:9092\", topic = \"t\", group = \"g\" }",
            "this version of semel does not have Kafka yet",
        ),
        ("from = { webhook = \"h:80/x\" }", "this version of semel does not have webhooks yet"),
    ] {
        world.write(
            "semel.toml",
            format!("store = \"sqlite:x.db\"\n[consumer.work]\n{text}\nid = \"body:/id\"\n{handler}"),
        );
        let said = world.fails(2, "run").await;
        assert!(said.contains(part), "{said}");
    }
    world.configure_work("[consumer.work.on.\"*\"]\npost = \"http://localhost\"");
    assert!(world.fails(2, "run").await.contains("this version of semel does not have post handlers yet"));
    world.write("semel.toml", "store = \"sqlite:x.db\"\n[relay]\n");
    assert!(
        world.fails(2, "run").await.contains("semel.toml:2: relay: this version of semel does not have the relay yet")
    );
    world.write("semel.toml", format!("store = \"mysql://me@db/shop\"\n{}", work("")));
    assert!(world.fails(2, "run").await.contains("store: this version of semel does not have MySQL yet"));
    assert!(!world.path("x.db").exists(), "nothing was made");
}

/// An address that cannot be right is a fault of the configuration, wherever it stands.
#[tokio::test]
async fn an_address_that_no_store_can_have_is_exit_code_2_and_is_not_repeated() {
    let world = on_sqlite();
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    for (address, part) in [
        (SECRET.to_owned(), "expected the address of a store"),
        (String::new(), "expected the address of a store"),
        (format!("redis://{SECRET}"), "expected the address of a store"),
        ("sqlite::memory:".into(), "a database in memory dies with its connection"),
        (format!("sqlite:{SECRET}?mode=ro"), "a plain path"),
        (format!("postgres://me:{SECRET}@db/shop?sslmod=require"), "sslmod"),
        (format!("postgres://me:{SECRET}@db/shop?sslmode=require"), "TLS"),
        (format!("postgres://me:a/{SECRET}@db/shop"), "%2F"),
        (format!("postgres://me:a#{SECRET}@db/shop"), "%23"),
        (format!("postgres://me:{SECRET}@db:99999999/shop"), "store's URL"),
    ] {
        for finished in [
            world.semel(["run", "--store", &address]).run(LIMIT).await,
            // An empty variable is none.
            world
                .semel(["status"])
                .env("SEMEL_STORE", if address.is_empty() { "x" } else { &address })
                .run(LIMIT)
                .await,
        ] {
            assert_eq!(finished.code(), Some(2), "{address}: {finished}");
            assert!(finished.stderr.contains(part), "{address}: {finished}");
            assert_no_secret(&finished);
        }
    }
    world.write("semel.toml", format!("store = \"${{NO_SUCH_{}}}\"\n{}", "VARIABLE", work("")));
    assert!(
        world
            .fails(2, "run")
            .await
            .contains("semel.toml:1: store: the environment variable NO_SUCH_VARIABLE is not set")
    );
}

fn assert_no_secret(finished: &Finished) {
    assert!(!finished.stdout.contains(SECRET) && !finished.stderr.contains(SECRET), "{finished}");
}

async fn a_handlers_file_that_is_not_there_is_named(world: World) {
    world.configure_work("[consumer.work.on.\"*\"]\nsql = { file = \"pay.sql\" }");
    let said = world.fails(2, "run").await;
    let store = if world.kind() == Kind::Sqlite { "sqlite" } else { "postgres" };
    assert!(
        said.contains("no such file") && said.contains(&format!("pay.{store}.sql")) && said.contains("pay.sql"),
        "{said}"
    );
    // A variant for the other store is no help; one for this store is.
    world.write("pay.mysql.sql", "select 1");
    world.fails(2, "run").await;
    world.write(&format!("pay.{store}.sql"), "insert into effect (id) select id from messages");
    world.write("pay.sql", "this is no SQL");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    assert_eq!(world.run("").await, Counts::processed(1));
}

/// Setup files: one with a fault keeps nothing of itself, one that was changed since it ran is refused, one that ran
/// is not run again.
async fn setup_files_run_once_whole_or_not_at_all(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    let effect = fs::read_to_string(world.path("effect.sql")).expect("a file");
    world.write("effect.sql", format!("{effect};\ncreate tabel other (id text);"));
    let said = world.fails(1, "run").await;
    assert!(said.contains("the setup file effect.sql failed") && said.contains("tabel"), "{said}");
    world.write("effect.sql", format!("{effect};\ninsert into effect (id) values ('from setup');"));
    assert_eq!(world.run("").await, Counts::processed(1), "nothing was kept of the first");
    assert_eq!(world.run("--from-start").await, Counts::duplicates(1));
    assert_eq!(world.effects_sorted().await, ["a", "from setup"], "it ran once");

    world.write("effect.sql", &effect);
    for verb in ["run", "migrate"] {
        let said = world.fails(1, verb).await;
        is_one_sentence(&said);
        assert!(said.contains("the setup file effect.sql has changed since it was run"), "{said}");
    }
    fs::remove_file(world.path("effect.sql")).expect("a file");
    let said = world.fails(2, "run").await;
    assert!(said.contains("semel.toml:2: setup[0]: no such file"), "{said}");
}

/// Law 32: an older program claims nothing on a newer schema.
async fn a_newer_schema_is_left_alone(world: World) {
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    world.done("migrate").await;
    world.store().execute("insert into semel.migration (version) values (99)").await;
    for verb in [
        "run",
        "migrate",
        "check",
        "status",
        "sweep",
        "explain a",
        "forget work a",
        "dead list",
        "dead show 1",
        "dead replay 1",
        "dead discard 1",
    ] {
        let said = world.fails(1, verb).await;
        assert!(
            said.contains("was made by a newer semel (schema 99, this program knows")
                && said.contains("use the newer program"),
            "{verb}: {said}"
        );
    }
    assert_eq!((world.place("a").await, world.offset().await), (Place::Nowhere, 0));
    world.store().execute("delete from semel.migration where version = 99").await;
    assert_eq!(world.run("").await, Counts::processed(1));
}

/// Tables that somebody took away: said at once where they are needed, and nothing is lost.
async fn without_one_of_its_tables_the_run_fails_or_does_not_need_it(world: World) {
    world.configure_work("key = \"body:/k\"\nretry = { immediate = 0, deferred = [\"1h\"] }");
    let lines = "{\"id\":\"done\"}\n{\"id\":\"waits\",\"k\":1,\"fails\":9}\n{\"no\":1}\n";
    world.write("lines.jsonl", lines);
    world.done("migrate").await;
    let whole = Counts { processed: 1, deferred: 1, dead_lettered: 1, ..Counts::default() };
    for table in ["consumer", "claim", "inbox", "dead_letter", "position", "instance", "attempt", "floor"] {
        let rename = |from: &str, to: &str| match world.kind() {
            Kind::Sqlite => format!("alter table semel_{from} rename to semel_{to}"),
            Kind::Postgres => format!("alter table semel.{from} rename to {to}"),
        };
        world.store().execute(&rename(table, "away")).await;
        let finished = world.command("run --json").await;
        let told = finished.code() == Some(1) && finished.stderr.contains("semel's tables ");
        let not_needed = finished.code() == Some(0) && Counts::of(&finished) == whole;
        assert!(told || not_needed, "{table}: {finished}");
        world.store().execute(&rename("away", table)).await;
        if told {
            let rest = world.run("").await;
            assert!(rest.received() <= 3 && rest.conflicts == 0, "{table}: {rest}");
        }
        assert_eq!((world.place("done").await, world.place("waits").await), (Place::Done, Place::Waiting), "{table}");
        assert_eq!(
            (world.letters().await.len(), world.effects().await),
            (1, vec!["done".to_owned()]),
            "{table}: each once"
        );
        world.forget_messages().await;
    }
}

on_both_stores!(
    a_handlers_file_that_is_not_there_is_named,
    setup_files_run_once_whole_or_not_at_all,
    a_newer_schema_is_left_alone,
    without_one_of_its_tables_the_run_fails_or_does_not_need_it,
);

// ---- the source

async fn a_source_that_cannot_be_read_is_named_and_nothing_is_registered_as_read(world: World) {
    world.configure_work("");
    let said = world.fails(1, "run").await;
    is_one_sentence(&said);
    assert!(said.contains("lines.jsonl does not exist"), "{said}");
    fs::create_dir(world.path("lines.jsonl")).expect("a directory");
    let said = world.fails(1, "run").await;
    assert!(said.contains("lines.jsonl is a directory; it must be a file of JSON Lines"), "{said}");
    fs::remove_dir(world.path("lines.jsonl")).expect("a directory");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    assert_eq!(world.run("").await, Counts::processed(1));
    world.configure_work("from = { file = \"lines.jsonl/more\" }");
    let said = world.fails(1, "run").await;
    assert!(said.contains("lines.jsonl/more is no path of a file"), "{said}");
    world.configure_work("from = { file = \"/dev/null\", follow = true }");
    let said = world.fails(1, "run").await;
    assert!(said.contains("/dev/null is a pipe: it is read to its end and cannot be followed"), "{said}");
    world.configure_work("from = { file = \"/dev/null\" }");
    assert_eq!(world.run("").await, Counts::default());
    world.check_places().await;
}

on_both_stores!(a_source_that_cannot_be_read_is_named_and_nothing_is_registered_as_read);

#[tokio::test]
async fn files_that_may_not_be_read_are_named() {
    let world = on_sqlite();
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    mode(world.directory(), 0o777);
    mode(&world.path("lines.jsonl"), 0);
    let Some(program) = world.unprivileged(["run"]) else { return };
    let finished = program.run(LIMIT).await;
    assert_eq!(finished.code(), Some(1), "{finished}");
    assert!(
        finished.stderr.contains("no permission to read ") && finished.stderr.contains("lines.jsonl"),
        "{finished}"
    );
    mode(&world.path("semel.toml"), 0);
    let finished = world.unprivileged(["run"]).expect("as before").run(LIMIT).await;
    assert_eq!(finished.code(), Some(2), "{finished}");
    assert!(finished.stderr.contains("semel.toml: may not be read: permission denied"), "{finished}");
    mode(&world.path("semel.toml"), 0o644);
    mode(&world.path("effect.sql"), 0);
    let finished = world.unprivileged(["run"]).expect("as before").run(LIMIT).await;
    assert_eq!(finished.code(), Some(2), "{finished}");
    assert!(finished.stderr.contains("effect.sql") && finished.stderr.contains("ermission"), "{finished}");
}

// ---- an SQLite file

#[tokio::test]
async fn what_is_no_sqlite_file_is_refused_and_left_as_it_was() {
    let world = on_sqlite();
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    fs::create_dir(world.path("folder")).expect("a directory");
    world.write(
        "text.db",
        "this is a text and no database, and it is longer than the head of one, which has a hundred bytes in it",
    );
    world.write("short.db", "short");
    let noise: Vec<u8> = (0..8192_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    world.write("noise.db", &noise);
    world.write("cut.db", [b"SQLite format 3\0", &noise[..4080]].concat());
    for (name, part) in [
        ("folder", "is a directory: name a file in it"),
        ("text.db", "is not an SQLite database"),
        ("short.db", "is not an SQLite database"),
        ("noise.db", "is not an SQLite database"),
        ("cut.db", "cut.db"),
        ("none/store.db", "does not exist: create it, or name another file"),
        ("text.db/store.db", ""),
    ] {
        let before = fs::read(world.path(name)).ok();
        for verb in ["run", "status", "migrate"] {
            let finished = world.semel([verb, "--store", &format!("sqlite:{name}")]).run(LIMIT).await;
            assert_eq!((finished.code(), &*finished.stdout), (Some(1), ""), "{verb} {name}: {finished}");
            is_one_sentence(&finished.stderr);
            // Who only looks has nothing to create.
            let part =
                if verb == "status" && before.is_none() && name != "folder" { "there is no database at" } else { part };
            assert!(finished.stderr.contains(part), "{verb} {name}: {finished}");
        }
        assert_eq!(fs::read(world.path(name)).ok(), before, "{name}");
    }
    // A mistyped path makes no file when it is only looked at.
    for verb in ["status", "check", "sweep", "explain a", "dead list", "dead replay 1"] {
        let said = world.fails(1, &format!("{verb} --store sqlite:mistyped.db")).await;
        assert!(said.contains("there is no database at mistyped.db yet"), "{verb}: {said}");
    }
    assert!(!world.path("mistyped.db").exists(), "a look makes nothing");
}

#[tokio::test]
async fn an_sqlite_file_that_may_not_be_written_is_named_and_nothing_is_lost() {
    let world = on_sqlite();
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    assert_eq!(world.run("").await, Counts::processed(1));
    world.append("lines.jsonl", "{\"id\":\"b\"}\n");

    // The directory may not be written: not even the log beside the file can be made.
    mode(&world.path("store.db"), 0o666);
    let Some(program) = world.unprivileged(["run"]) else { return };
    let finished = program.run(LIMIT).await;
    assert_eq!((finished.code(), &*finished.stdout), (Some(1), ""), "{finished}");
    is_one_sentence(&finished.stderr);
    assert!(finished.stderr.contains("store.db"), "{finished}");
    // The file may not be written.
    mode(world.directory(), 0o777);
    mode(&world.path("store.db"), 0o444);
    let finished = world.unprivileged(["run"]).expect("as before").run(LIMIT).await;
    assert_eq!((finished.code(), &*finished.stdout), (Some(1), ""), "{finished}");
    is_one_sentence(&finished.stderr);
    assert!(finished.stderr.contains("store.db cannot be written: give this user write permission"), "{finished}");
    // The file may not even be read.
    mode(&world.path("store.db"), 0);
    let finished = world.unprivileged(["run"]).expect("as before").run(LIMIT).await;
    assert_eq!((finished.code(), &*finished.stdout), (Some(1), ""), "{finished}");
    is_one_sentence(&finished.stderr);
    assert!(finished.stderr.contains("store.db"), "{finished}");

    mode(&world.path("store.db"), 0o644);
    assert_eq!(world.run("").await, Counts::processed(1));
    assert_eq!(world.effects().await, ["a", "b"]);
}

#[tokio::test]
async fn a_disk_that_takes_no_writes_is_named() {
    let world = on_sqlite();
    let Some(disk) = SmallDisk::mount(&world.path("disk"), 4096) else { return };
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    let store = "sqlite:disk/store.db";
    world.done(&format!("run --store {store}")).await;
    world.append("lines.jsonl", "{\"id\":\"b\"}\n");
    disk.writable(false);
    let finished = world.command(&format!("run --store {store}")).await;
    assert_eq!((finished.code(), &*finished.stdout), (Some(1), ""), "{finished}");
    is_one_sentence(&finished.stderr);
    assert!(finished.stderr.contains("store.db cannot be "), "{finished}");
    disk.writable(true);
    assert_eq!(world.run(&format!("--store {store}")).await, Counts::processed(1));
    assert_eq!(sqlite_rows(&disk.path().join("store.db"), "select id from effect order by seq").await, ["a", "b"]);
}

/// A lock is waited for: a short one is not noticed, a long one ends the run at its start.
#[tokio::test]
async fn an_sqlite_file_that_another_program_has_locked_is_waited_for() {
    let world = on_sqlite();
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    world.done("migrate").await;
    let mut other = world.store().connect_sqlite().await;
    other.execute("begin immediate").await.expect("a lock");
    let running = world.semel(["run", "--json"]).spawn();
    let long = world.semel(["run"]).run(LIMIT).await;
    assert_eq!((long.code(), &*long.stdout), (Some(1), ""), "{long}");
    is_one_sentence(&long.stderr);
    assert!(long.stderr.contains("store.db is locked: another program has held it for longer than 5 s"), "{long}");
    // Looking needs no lock.
    assert_eq!(world.json("status").await.len(), 1);
    assert_eq!(running.wait(LIMIT).await.code(), Some(1), "it waited as long");
    let running = world.semel(["run", "--json"]).spawn();
    let _ = world.json("dead list").await;
    other.execute("rollback").await.expect("the lock is ours");
    assert_eq!(Counts::of(&running.wait(LIMIT).await), Counts::processed(1));
    other.close().await.expect("an SQLite file closes");
    world.check_places().await;
}

// ---- a full disk

/// Makes the disk full while messages come; then asks the run to end, makes room, and looks whether each message was
/// processed once.
async fn run_into_a_full_disk(world: &World, disk: &SmallDisk, store: &str, room_kib: u64) {
    const MESSAGES: usize = 600;
    world.write(
        "lines.jsonl",
        (0..MESSAGES)
            .map(|n| format!("{{\"id\":\"{n:03}\",\"note\":\"{SECRET}{}\"}}\n", "x".repeat(4000)))
            .collect::<String>(),
    );
    let running = world.semel(["run", "--json", "--store", store]).spawn();
    let warned = running.wait_for_line("the store does not take messages; trying again until it does", LIMIT).await;
    running.sigterm();
    let finished = running.wait(LIMIT).await;
    assert!(matches!(finished.code(), Some(0 | 1)), "{finished}");
    assert_no_secret(&finished);
    disk.resize(room_kib);
    let rest = world.run(&format!("--store {store}")).await;
    assert_eq!((rest.conflicts, rest.dead_lettered), (0, 0), "{rest}");
    let told = warned.contains("disk is full") || warned.contains("there is no room left to write");
    assert!(told, "it says what is wrong: {warned}");
}

#[tokio::test]
async fn a_full_disk_under_an_sqlite_file_is_an_outage_and_loses_nothing() {
    let world = on_sqlite();
    let Some(disk) = SmallDisk::mount(&world.path("disk"), 600) else { return };
    world.configure_work(
        "[consumer.work.on.\"*\"]\nsql = \"insert into effect (id, note) select id, body->>'note' from messages\"",
    );
    run_into_a_full_disk(&world, &disk, "sqlite:disk/store.db", 64 * 1024).await;
    let file = disk.path().join("store.db");
    let sums = "select count(*), count(distinct id), (select count(*) from semel_claim), (select count(*) from semel_dead_letter) from effect";
    assert_eq!(sqlite_rows(&file, sums).await, ["600|600|600|0"]);
}

#[tokio::test]
async fn a_full_disk_under_a_postgresql_database_is_no_fault_of_the_messages() {
    let Some(world) = on_postgresql().await else { return };
    // The directory of a tablespace belongs to the server's own user.
    let server = world.store().value("select pg_backend_pid()").await;
    let Ok(owner) = fs::metadata(format!("/proc/{server}")).map(|process| (process.uid(), process.gid())) else {
        eprintln!("skipped: the server is on another machine");
        return;
    };
    let Some(disk) = SmallDisk::mount(&world.path("disk"), 24 * 1024) else { return };
    let place = disk.path().join("space");
    fs::create_dir(&place).expect("a directory");
    std::os::unix::fs::chown(&place, Some(owner.0), Some(owner.1)).expect("root may");
    let name = format!("small_{}", std::process::id());
    world.store().execute(&format!("create tablespace {name} location '{}'", place.display())).await;
    world.store().execute(&format!("create database {name} tablespace {name}")).await;
    let store = Server(world.address()).named(&name);
    let sql = "insert into effect (id, note) select id, md5(id) || repeat(body->>'note', 20) from messages";
    world.configure_work(&handler("*", sql));
    // Not compressed: the disk must become full.
    world.done(&format!("migrate --store {store}")).await;
    let mut small = PgConnection::connect(&store).await.expect("it answers");
    small.execute("alter table effect alter note set storage external").await.expect("a setting");
    run_into_a_full_disk(&world, &disk, &store, 512 * 1024).await;
    let sums = "select (select count(*) from effect), (select count(distinct id) from effect), (select count(*) from semel.claim), \
                (select count(*) from semel.dead_letter)";
    let row: (i64, i64, i64, i64) = sqlx::query_as(sums).fetch_one(&mut small).await.expect("an answer");
    small.close().await.expect("a goodbye");
    world.store().execute(&format!("drop database {name} with (force)")).await;
    world.store().execute(&format!("drop tablespace {name}")).await;
    assert_eq!(row, (600, 600, 600, 0));
}

/// A server, by the address of one of its databases.
struct Server(String);

impl Server {
    /// The address of another of its databases.
    fn named(&self, name: &str) -> String {
        let (plain, parameters) = self.0.split_at(self.0.find('?').unwrap_or(self.0.len()));
        let (server, _) = plain.rsplit_once('/').expect("a URL with a database");
        format!("{server}/{name}{parameters}")
    }
}

// ---- a PostgreSQL server

#[tokio::test]
async fn a_server_that_is_not_there_is_named_without_its_password() {
    let world = on_sqlite();
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = listener.local_addr().expect("an address").port();
    let speaks_otherwise = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = speaks_otherwise.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        while let Ok((mut stream, _)) = speaks_otherwise.accept() {
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    for (place, part) in [
        ("127.0.0.1:1/shop".to_owned(), "check that it runs and can be reached"),
        ("no-such-host.invalid/shop".to_owned(), "check that it runs and can be reached"),
        (format!("127.0.0.1:{silent}/shop?connect_timeout=1"), "PostgreSQL did not answer within 1 s"),
        (format!("127.0.0.1:{other}/shop?connect_timeout=5"), "check"),
    ] {
        let address = format!("postgres://me:{SECRET}@{place}");
        for verb in ["run", "check", "status"] {
            let finished = world.semel([verb]).env("SEMEL_STORE", &address).env("SEMEL_LOG", "trace").run(LIMIT).await;
            assert_eq!((finished.code(), &*finished.stdout), (Some(1), ""), "{verb} {place}: {finished}");
            is_one_sentence(&finished.stderr);
            assert!(
                finished.stderr.contains(part) && finished.stderr.contains(" as me)"),
                "{verb} {place}: {finished}"
            );
            assert_no_secret(&finished);
        }
    }
}

#[tokio::test]
async fn a_wrong_password_is_named_and_not_shown() {
    let Some(server) = server().await else { return };
    let database = server.database().await;
    let mut admin = PgConnection::connect(&database.url()).await.expect("it answers");
    let set_up = format!(
        "create role guarded login password '{SECRET}'; alter schema public owner to guarded; \
         do $$ begin execute format('grant create on database %I to guarded', current_database()); end $$"
    );
    sqlx::raw_sql(AssertSqlSafe(set_up)).execute(&mut admin).await.expect("a role");
    let hba: String = sqlx::query_scalar("show hba_file").fetch_one(&mut admin).await.expect("a path");
    let rules = "values ('host all guarded 127.0.0.1/32 scram-sha-256'), ('host all all 127.0.0.1/32 trust')";
    sqlx::raw_sql(AssertSqlSafe(format!("copy ({rules}) to '{hba}'; select pg_reload_conf()")))
        .execute(&mut admin)
        .await
        .expect("rules");

    let world = on_sqlite();
    world.configure_work("");
    world.write("effect.sql", "create table effect (id text)");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    let with = |user: &str| as_user(&database.url(), user);
    until("the rules are in force", async || PgConnection::connect(&with("guarded")).await.is_err()).await;
    let wrong = format!("{SECRET}-wrong");
    for (address, variable) in [
        (with(&format!("guarded:{wrong}")), None),
        (format!("{}?password={wrong}", with("guarded")), None),
        (with("guarded"), Some(&*wrong)),
        (with("guarded"), None),
    ] {
        for verb in ["run", "status"] {
            let mut program = world.semel([verb, "--store", &address]).env("SEMEL_LOG", "trace");
            if let Some(password) = variable {
                program = program.env("PGPASSWORD", password);
            }
            let finished = program.run(LIMIT).await;
            assert_eq!((finished.code(), &*finished.stdout), (Some(1), ""), "{finished}");
            is_one_sentence(&finished.stderr);
            assert!(finished.stderr.contains("refused the user name or password"), "{variable:?}: {finished}");
            assert_no_secret(&finished);
        }
    }
    // In the file by way of the environment; then right in three ways.
    world.write(
        "semel.toml",
        format!("store = \"{}\"\nsetup = [\"effect.sql\"]\n{}", with("guarded:${DB_PASSWORD}"), work("")),
    );
    let finished = world.semel(["run"]).env("DB_PASSWORD", &wrong).run(LIMIT).await;
    assert_eq!(finished.code(), Some(1), "{finished}");
    assert_no_secret(&finished);
    let finished = world.semel(["run", "--json"]).env("DB_PASSWORD", SECRET).env("SEMEL_LOG", "trace").run(LIMIT).await;
    assert_eq!(Counts::of(&finished), Counts::processed(1));
    assert_no_secret(&finished);
    for address in [with(&format!("guarded:{SECRET}")), format!("{}?password={SECRET}", with("guarded"))] {
        let finished = world.semel(["run", "--from-start", "--store", &address]).run(LIMIT).await;
        assert_eq!(finished.code(), Some(0), "{finished}");
        assert_no_secret(&finished);
        let finished = world.semel(["check", "--store", &address]).env("DB_PASSWORD", "").run(LIMIT).await;
        assert_no_secret(&finished);
    }
}

/// PostgreSQL looks first into the schema that is called like the role: one that is called semel must not make its
/// tables among semel's own, nor find those in place of its own.
#[tokio::test]
async fn a_role_that_is_called_semel_keeps_its_own_tables_apart() {
    let Some(server) = server().await else { return };
    let database = server.database().await;
    let mut admin = PgConnection::connect(&database.url()).await.expect("it answers");
    let set_up = "drop role if exists semel; create role semel login; alter schema public owner to semel; \
                  do $$ begin execute format('grant create on database %I to semel', current_database()); end $$";
    sqlx::raw_sql(set_up).execute(&mut admin).await.expect("a role");
    let world = on_sqlite();
    world.write("effect.sql", "create table effect (id text); create table if not exists claim (id text)");
    let both = "insert into effect (id) select id from messages; insert into claim (id) select id from messages";
    let sql = &handler("*", both);
    let address = as_user(&database.url(), "semel");
    world.write("semel.toml", format!("store = \"{address}\"\nsetup = [\"effect.sql\"]\n{}", work(sql)));
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    for counts in [Counts::processed(1), Counts::default()] {
        assert_eq!(world.run("").await, counts);
    }
    world.done("check").await;
    let found =
        "select schemaname::text || '.' || tablename from pg_tables where tablename in ('effect', 'claim') order by 1";
    let tables: Vec<String> = sqlx::query_scalar(found).fetch_all(&mut admin).await.expect("an answer");
    assert_eq!(tables, ["public.claim", "public.effect", "semel.claim"]);
}

/// What the server says no to: one sentence each, and when it says yes again, each message is processed once.
#[tokio::test]
async fn a_server_that_refuses_is_understood() {
    let Some(world) = on_postgresql().await else { return };
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    let name = world.store().value("select current_database()").await;
    let missing = Server(world.address()).named("no_such_database");
    let said = world.fails(1, &format!("run --store {missing}")).await;
    is_one_sentence(&said);
    assert!(
        said.contains("there is no such database") && said.contains("create it, or correct the store's URL"),
        "{said}"
    );

    world.store().execute(&format!("alter database {name} set default_transaction_read_only = on")).await;
    let said = world.fails(1, "run").await;
    is_one_sentence(&said);
    assert!(said.contains("it takes no writes") && said.contains("end default_transaction_read_only"), "{said}");
    world
        .store()
        .execute(&format!("begin read write; alter database {name} reset default_transaction_read_only; commit"))
        .await;
    assert_eq!(world.run("").await, Counts::processed(1));
    world.append("lines.jsonl", "{\"id\":\"b\"}\n{\"no\":1}\n");
    world.store().execute(&format!("alter database {name} set default_transaction_read_only = on")).await;
    let said = world.fails(1, "run").await;
    is_one_sentence(&said);
    assert!(said.contains("it takes no writes"), "with the tables there: {said}");
    for verb in ["status", "dead list", "explain a"] {
        world.done(verb).await;
    }
    world
        .store()
        .execute(&format!("begin read write; alter database {name} reset default_transaction_read_only; commit"))
        .await;
    assert_eq!(world.run("").await, Counts { processed: 1, dead_lettered: 1, ..Counts::default() });

    // A role that may do nothing yet, then only look, then all that the schema's head says.
    let role = format!("{name}_role");
    world.store().execute(&format!("create role {role} login")).await;
    let as_role = as_user(&world.address(), &role);
    world.append("lines.jsonl", "{\"id\":\"c\"}\n");
    let options = format!("--store {as_role}");
    let refused = async |verb: &str| {
        let finished = world.command(&format!("{verb} {options}")).await;
        assert_eq!((finished.code(), &*finished.stdout), (Some(1), ""), "{verb}: {finished}");
        is_one_sentence(&finished.stderr);
        assert!(
            finished.stderr.contains("the role may not do this")
                && finished.stderr.contains("grant it what semel's schema asks for"),
            "{verb}: {finished}"
        );
    };
    refused("run").await;
    refused("status").await;
    world
        .store()
        .execute(&format!(
            "grant usage on schema semel to {role}; grant select on all tables in schema semel to {role}"
        ))
        .await;
    world.done(&format!("status {options}")).await;
    refused("run").await;
    world
        .store()
        .execute(&format!(
            "grant insert, update, delete on all tables in schema semel to {role}; grant insert on effect to {role}; \
        grant usage on all sequences in schema public to {role}"
        ))
        .await;
    let counts = world.run(&options).await;
    let errors = world.store().rows("select error from semel.dead_letter where reason = 'failed'").await;
    assert_eq!(counts, Counts::processed(1), "what the schema's head says is enough: {errors:?}");
    assert_eq!(world.effects().await, ["a", "b", "c"]);
    world.check_places().await;
    world.store().execute(&format!("drop owned by {role}; drop role {role}")).await;
}

/// The store goes away while a run lasts, and comes back: one warning, one line when it is over, nobody blamed,
/// nothing lost.
#[tokio::test]
async fn a_store_that_goes_away_for_a_while_costs_no_message_anything() {
    let Some(world) = on_postgresql().await else { return };
    world.configure_work("from = { file = \"lines.jsonl\", follow = true }");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    world.done("migrate").await;
    let running = world.semel(["run", "--json"]).spawn();
    until("the first is done", async || world.effects().await.len() == 1).await;
    let name = world.store().value("select current_database()").await;
    let others = format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}' and application_name = 'semel'"
    );
    let mut admin = PgConnection::connect(&Server(world.address()).named("postgres")).await.expect("it answers");
    admin.execute(AssertSqlSafe(format!("alter database {name} allow_connections false"))).await.expect("a setting");
    admin.execute(AssertSqlSafe(others)).await.expect("they end");
    world.append("lines.jsonl", format!("{{\"id\":\"b\",\"note\":\"{SECRET}\"}}\n{{\"id\":\"c\"}}\n"));
    running.wait_for_line("the store does not take messages; trying again until it does", LIMIT).await;
    world.append("lines.jsonl", "{\"no\":1}\n{\"id\":\"d\"}\n");
    admin.execute(AssertSqlSafe(format!("alter database {name} allow_connections true"))).await.expect("a setting");
    admin.close().await.expect("a goodbye");
    running.wait_for_line("the store takes messages again, after", LIMIT).await;
    until("all are done", async || world.effects().await.len() == 4).await;
    until("the one without an id is set aside", async || world.letters().await.len() == 1).await;
    running.sigterm();
    let finished = running.wait(LIMIT).await;
    assert_eq!(finished.code(), Some(0), "{finished}");
    assert_eq!(Counts::of(&finished), Counts { processed: 4, dead_lettered: 1, ..Counts::default() });
    assert_eq!(finished.stderr.matches("the store does not take messages").count(), 1, "{finished}");
    assert_no_secret(&finished);
    assert_eq!(world.effects_sorted().await, ["a", "b", "c", "d"]);
    world.check_places().await;
}

// ---- secrets

/// Errors of the database quote values. They are for `dead list`, and for nobody who only sees the screen or the log
/// of a run.
async fn a_payload_is_on_no_screen_but_where_it_was_asked_for(world: World) {
    let refuses = match world.kind() {
        Kind::Postgres => "insert into effect (id, note) select id, cast(body->>'note' as bigint) from messages",
        // SQLite quotes no values; but a constraint's name may be anything.
        Kind::Sqlite => "insert into effect (id, note) select null, body->>'note' from messages",
    };
    world.configure_work(&format!(
        "key = \"body:/key\"\nkind = \"body:/do\"\nretry = {{ immediate = 1, deferred = [\"1h\"] }}\n\
         [consumer.work.on.bad]\nsql = \"{refuses}\"\n[consumer.work.on.good]\nsql = \"insert into effect (id) select id from messages\""
    ));
    let lines = [
        format!("{{\"id\":\"1\",\"do\":\"good\",\"note\":\"{SECRET}\"}}"),
        format!("{{\"id\":\"1\",\"do\":\"good\",\"note\":\"{SECRET}\",\"n\":1}}"),
        format!("{{\"id\":\"2\",\"do\":\"bad\",\"note\":\"{SECRET}\"}}"),
        format!("{{\"id\":\"3\",\"do\":\"bad\",\"key\":\"{SECRET}\"}}"),
        format!("{{\"no\":\"{SECRET}\"}}"),
        format!("{{\"id\":[\"{SECRET}\"]}}"),
        format!("{{\"id\":\"4\",\"note\":\"{SECRET}"),
        SECRET.to_owned(),
        format!("{{\"id\":\"5\",\"{SECRET}\":1,\"{SECRET}\":2}}"),
        format!("{{\"id\":\"6\",\"do\":{{\"{SECRET}\":1}}}}"),
    ];
    world.write("lines.jsonl", lines.join("\n"));
    for options in [vec!["run"], vec!["run", "--json", "--from-start"], vec!["run", "--from-start", "--no-brake"]] {
        let finished = world.semel(&options).env("SEMEL_LOG", "trace").run(LIMIT).await;
        assert_eq!(finished.code(), Some(0), "{finished}");
        assert_no_secret(&finished);
    }
    for words in [
        "status",
        "status --json",
        "check",
        "sweep",
        "migrate",
        "explain 1",
        "explain 1 --json",
        "dead list --reason conflict",
        "dead list --reason missing-id --json",
        "dead list --reason undecodable",
        "dead list --reason invalid-id",
        "forget work 2",
        "dead replay --all --reason missing-id",
        "dead replay --all --reason undecodable",
        "dead replay --all --reason conflict",
    ] {
        let finished = world.semel(words.split_whitespace()).env("SEMEL_LOG", "trace").run(LIMIT).await;
        assert_no_secret(&finished);
    }
    let number = world.json("dead list --reason conflict").await[0]["number"].clone();
    assert!(world.done(&format!("dead show {number}")).await.stdout.contains(SECRET), "there it was asked for");
    assert!(world.done(&format!("dead discard {number}")).await.stderr.contains("1 dead letter discarded"));
}

on_both_stores!(a_payload_is_on_no_screen_but_where_it_was_asked_for);

/// Other programs see the arguments of a command; a password in the environment stays there.
#[tokio::test]
async fn the_environment_wins_over_the_file_and_the_option_over_both() {
    let world = on_sqlite();
    world.configure_work("");
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    let run = |store: Option<&str>, option: Option<&str>| {
        let words = ["run", "--json"].into_iter().chain(option.iter().flat_map(|option| ["--store", option]));
        let program = world.semel(words);
        match store {
            Some(store) => program.env("SEMEL_STORE", store),
            None => program,
        }
    };
    for (store, option, made) in [
        (None, None, "store.db"),
        (Some("sqlite:variable.db"), None, "variable.db"),
        (Some("sqlite:variable.db"), Some("sqlite:option.db"), "option.db"),
    ] {
        assert!(!world.path(made).exists());
        assert_eq!(Counts::of(&run(store, option).run(LIMIT).await), Counts::processed(1), "{made}");
        assert!(world.path(made).exists(), "{made}");
    }
    assert_eq!(Counts::of(&run(Some(""), None).run(LIMIT).await), Counts::default(), "an empty variable is none");
}

/// A limit of every command here, so that a hang is a failure and not a wait.
#[tokio::test]
async fn a_stop_ends_a_run_whose_handler_never_does() {
    let Some(world) = on_postgresql().await else { return };
    let sleeps = "insert into effect (id) select id from messages where pg_sleep(600) is not null";
    world.configure_work(&format!("grace = \"300ms\"\n{}", handler("*", sleeps)));
    world.write("lines.jsonl", "{\"id\":\"a\"}\n");
    let running = world.semel(["run", "--json"]).spawn();
    let asleep = "select count(*) from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'";
    until("the handler runs", async || world.store().count(asleep).await == 1).await;
    running.sigterm();
    let finished = running.wait(Duration::from_secs(10)).await;
    assert_eq!((finished.code(), Counts::of(&finished)), (Some(0), Counts::default()), "{finished}");
    assert!(
        finished.stderr.contains("the grace time is over: what is still in work is rolled back and comes again"),
        "{finished}"
    );
    until("its query is cancelled", async || world.store().count(asleep).await == 0).await;
    assert_eq!((world.place("a").await, world.offset().await), (Place::Nowhere, 0), "it comes again");

    // Twice: at once.
    world.configure_work(&handler("*", sleeps));
    let running = world.semel(["run", "--json"]).spawn();
    until("the handler runs", async || world.store().count(asleep).await == 1).await;
    running.sigterm();
    running.wait_for_line("once more to end at once", LIMIT).await;
    running.sigterm();
    let finished = running.wait(Duration::from_secs(10)).await;
    assert_eq!((finished.code(), &*finished.stdout), (Some(1), ""), "{finished}");
    assert!(finished.stderr.contains("ended at once; what was in work is rolled back and comes again"), "{finished}");
    until("its query is cancelled", async || world.store().count(asleep).await == 0).await;

    world.configure_work("");
    assert_eq!(world.run("").await, Counts::processed(1));
    world.check_places().await;
}
