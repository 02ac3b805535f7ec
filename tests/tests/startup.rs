//! Many programs that start at once on an empty database, and databases that are not as the program expects them.

use std::time::Duration;

use semel_tests::base::{Base, Kind};
use semel_tests::oracle;
use semel_tests::payments::Payments;
use semel_tests::program::{Finished, Running};
use semel_tests::random::Random;
use semel_tests::shop::{BOOKED, LIMIT, Rules, Shop, Summary, configuration};

const PROGRAM: &str = env!("CARGO_BIN_EXE_semel-probed");
const PROGRAMS: usize = 10;
const ROUNDS: usize = 3;

/// Fails when it is run a second time.
const OPENING: &str = "create table opening (number int not null); insert into opening (number) values (1);";

// ---- many at once

/// A shop and as many configurations beside its own: `semel-N.toml` reads `payments-N.jsonl`, and half of each file is in
/// the next one as well.
async fn chain(kind: Kind, random: &mut Random) -> Option<Shop> {
    let rules = Rules { lanes: 2, ..Rules::default() };
    let parts: Vec<Payments> = (0..PROGRAMS).map(|n| Payments::named(&format!("pay-{n}"), 20, random)).collect();
    let mut all = Payments::default();
    for part in &parts {
        all.good.extend(part.good.clone());
    }
    let shop = Shop::open(kind, PROGRAM, &rules, all).await?;
    shop.write("opening.sql", OPENING);
    for (number, part) in parts.iter().enumerate() {
        let next = &parts[(number + 1) % PROGRAMS];
        let lines: Vec<&String> = part.lines.iter().chain(next.lines.iter().take(12)).collect();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        shop.write(&format!("payments-{number}.jsonl"), &text);
        let configuration = configuration(&shop.base.url(), &format!("payments-{number}.jsonl"), &rules);
        let configuration = configuration.replace(r#"["schema.sql"]"#, r#"["schema.sql", "opening.sql"]"#);
        shop.write(&format!("semel-{number}.toml"), &configuration);
    }
    Some(shop)
}

async fn ten_at_once(kind: Kind) -> Option<()> {
    let mut random = Random::new();
    for round in 0..ROUNDS {
        let shop = chain(kind, &mut random).await?;
        let start = |number| shop.semel(&["run", &format!("semel-{number}.toml"), "--json"]).spawn();
        let running: Vec<Running> = (0..PROGRAMS).map(start).collect();
        let mut ends: Vec<Finished> = Vec::new();
        for one in running {
            ends.push(one.wait(LIMIT).await);
        }
        let summaries: Vec<Summary> = ends.iter().map(Summary::of).collect();
        let processed: u64 = summaries.iter().map(|summary| summary.processed).sum();
        assert_eq!(processed, shop.payments.good.len() as u64, "round {round}: {summaries:?}");
        assert!(summaries.iter().all(|summary| summary.dead_lettered + summary.deferred == 0), "{summaries:?}");
        assert_eq!(oracle::at_the_end(&shop.base, &shop.payments).await, [], "round {round}");
        assert_eq!(shop.base.number("select count(*) from opening").await, 1, "round {round}: the setup ran once");
        for finished in &ends {
            assert!(!finished.stderr.contains("did not end well"), "they are no crashes of each other: {finished}");
        }
    }
    Some(())
}

#[tokio::test]
async fn on_sqlite_ten_programs_that_start_at_once_make_the_tables_once_and_book_every_payment_once() {
    ten_at_once(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_ten_programs_that_start_at_once_make_the_tables_once_and_book_every_payment_once() {
    ten_at_once(Kind::Postgres).await;
}

/// All of them read the same file: whoever claims a payment first books it.
async fn the_same_file(kind: Kind, before: &str) -> Option<()> {
    let payments = Payments::plain(60, &mut Random::seeded(31));
    let shop = Shop::open(kind, PROGRAM, &Rules { lanes: 2, max_batch: 8, ..Rules::default() }, payments).await?;
    if !before.is_empty() {
        shop.base.execute(before).await;
    }
    let running: Vec<Running> = (0..PROGRAMS).map(|_| shop.run().spawn()).collect();
    let mut processed = 0;
    for one in running {
        // How many lines it read depends on what the others had stored as the position when it began.
        processed += Summary::of(&one.wait(LIMIT).await).processed;
    }
    assert_eq!(processed, 60);
    assert_eq!(shop.violations().await, []);
    Some(())
}

#[tokio::test]
async fn on_sqlite_ten_programs_that_read_the_same_file_book_every_payment_once() {
    the_same_file(Kind::Sqlite, "").await;
}

#[tokio::test]
async fn on_postgres_ten_programs_that_read_the_same_file_book_every_payment_once() {
    // The server's own default of how transactions see each other changes nothing.
    const STRICT: &str = "do $$ begin
        execute format('alter database %I set default_transaction_isolation = serializable', current_database());
        end $$";
    for before in ["", STRICT] {
        the_same_file(Kind::Postgres, before).await;
    }
}

// ---- the schema

async fn newer_schema(kind: Kind) -> Option<()> {
    let payments = Payments::plain(10, &mut Random::seeded(32));
    let shop = Shop::open(kind, PROGRAM, &Rules::default(), payments).await?;
    assert_eq!(shop.semel(&["migrate"]).run(LIMIT).await.code(), Some(0));
    let table = match kind {
        Kind::Sqlite => "semel_migration",
        Kind::Postgres => "semel.migration",
    };
    let columns = match kind {
        Kind::Sqlite => "(version, applied_at) values (99, 0)",
        Kind::Postgres => "(version) values (99)",
    };
    shop.base.execute(&format!("insert into {table} {columns}")).await;
    for arguments in [&["run", "--json"][..], &["migrate"], &["status"], &["dead", "list"], &["sweep"]] {
        let finished = shop.semel(arguments).run(LIMIT).await;
        assert_eq!(finished.code(), Some(1), "{arguments:?}: {finished}");
        assert!(finished.stderr.contains("made by a newer semel (schema 99"), "{arguments:?}: {finished}");
        assert!(finished.stderr.contains("use the newer program"), "{arguments:?}: {finished}");
    }
    assert_eq!(shop.base.number(BOOKED).await, 0);
    Some(())
}

#[tokio::test]
async fn on_sqlite_a_newer_schema_is_refused() {
    newer_schema(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_a_newer_schema_is_refused() {
    newer_schema(Kind::Postgres).await;
}

const KILLS: u64 = 12;

/// A setup that takes its time, so that kills hit the middle of it.
fn long_setup(kind: Kind) -> String {
    let wait = match kind {
        Kind::Postgres => "select pg_sleep(0.003);",
        Kind::Sqlite => {
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 5000) select max(i) from n;"
        }
    };
    (0..40).map(|number| format!("create table shelf_{number} (id int primary key, name text);\n{wait}\n")).collect()
}

async fn killed_migrations(kind: Kind) -> Option<()> {
    let mut random = Random::new();
    for kill in 0..KILLS {
        let payments = Payments::plain(20, &mut random);
        let rules = Rules::default();
        let shop = Shop::open(kind, PROGRAM, &rules, payments).await?;
        shop.write("shelves.sql", &long_setup(kind));
        let text = configuration(&shop.base.url(), "payments.jsonl", &rules);
        shop.write("semel.toml", &text.replace(r#"["schema.sql"]"#, r#"["schema.sql", "shelves.sql"]"#));
        let running = shop.semel(&["migrate"]).spawn();
        // The moment itself is what is drawn.
        tokio::time::sleep(Duration::from_millis(random.below(300))).await;
        running.kill9().await;
        let again = shop.semel(&["migrate"]).run(LIMIT).await;
        assert_eq!(again.code(), Some(0), "after kill {kill}: {again}");
        shop.work_off(&[]).await;
        assert_eq!(shop.violations().await, [], "after kill {kill}");
        let shelves = shop.base.number("select count(*) from shelf_0, shelf_39").await;
        assert_eq!(shelves, 0, "both are there");
    }
    Some(())
}

#[tokio::test]
async fn on_sqlite_a_migration_that_is_killed_is_done_by_the_next_one() {
    killed_migrations(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_a_migration_that_is_killed_is_done_by_the_next_one() {
    killed_migrations(Kind::Postgres).await;
}

async fn changed_setup(kind: Kind) -> Option<()> {
    let payments = Payments::plain(10, &mut Random::seeded(34));
    let shop = Shop::open(kind, PROGRAM, &Rules::default(), payments).await?;
    assert_eq!(shop.semel(&["migrate"]).run(LIMIT).await.code(), Some(0));
    let schema = std::fs::read_to_string(shop.directory().join("schema.sql")).expect("the setup");
    shop.write("schema.sql", &format!("{schema}\ncreate table one_more (id int);\n"));
    for arguments in [&["run", "--json"][..], &["migrate"]] {
        let finished = shop.semel(arguments).run(LIMIT).await;
        assert_eq!(finished.code(), Some(1), "{arguments:?}: {finished}");
        assert!(finished.stderr.contains("schema.sql has changed since it was run"), "{arguments:?}: {finished}");
    }
    assert_eq!(shop.base.number(BOOKED).await, 0, "nothing is begun");
    // As it was, it is known.
    shop.write("schema.sql", &schema);
    shop.work_off(&[]).await;
    assert_eq!(shop.violations().await, []);
    Some(())
}

#[tokio::test]
async fn on_sqlite_a_setup_that_was_changed_after_it_ran_is_refused() {
    changed_setup(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_a_setup_that_was_changed_after_it_ran_is_refused() {
    changed_setup(Kind::Postgres).await;
}

/// A setup that fails leaves nothing behind, and its mended text is run.
async fn failing_setup(kind: Kind) -> Option<()> {
    let payments = Payments::plain(10, &mut Random::seeded(35));
    let shop = Shop::open(kind, PROGRAM, &Rules::default(), payments).await?;
    let schema = std::fs::read_to_string(shop.directory().join("schema.sql")).expect("the setup");
    shop.write("schema.sql", &format!("{schema}\ncreate tabel one_more (id int);\n"));
    let finished = shop.semel(&["run"]).run(LIMIT).await;
    assert_eq!(finished.code(), Some(1), "{finished}");
    assert!(finished.stderr.contains("the setup file schema.sql failed"), "{finished}");
    assert!(finished.stderr.contains("tabel"), "it says where: {finished}");
    if matches!(shop.base, Base::Postgres(_)) {
        assert_eq!(shop.base.number("select count(*) from pg_class where relname in ('ledger', 'semel')").await, 0);
    }
    shop.write("schema.sql", &schema);
    shop.work_off(&[]).await;
    assert_eq!(shop.violations().await, []);
    Some(())
}

#[tokio::test]
async fn on_sqlite_a_setup_that_fails_leaves_nothing_behind() {
    failing_setup(Kind::Sqlite).await;
}

#[tokio::test]
async fn on_postgres_a_setup_that_fails_leaves_nothing_behind() {
    failing_setup(Kind::Postgres).await;
}
