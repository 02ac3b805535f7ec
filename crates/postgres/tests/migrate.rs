//! The schema, and the application's setup files.

mod common;

use common::{Database, execute, text};
use semel_core::{Lane, Records, Setup, Store, StoreError, Trouble};
use semel_postgres::{Postgres, SCHEMA};
use std::time::Duration;

fn setup(name: &str, sql: &str) -> Setup {
    Setup { name: name.into(), sql: sql.into() }
}

async fn migrate(database: &Database, setups: &[Setup]) -> Result<(), StoreError> {
    database.lane().await.migrate(setups).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_processes_may_start_at_once() {
    for round in 0..5 {
        let Some(database) = Database::empty().await else { return };
        let setups = [
            setup("a.sql", "create table a (n int); insert into a values (1)"),
            setup("b.sql", "insert into a values (2); select pg_sleep(0.05)"),
        ];
        let starts: Vec<_> = (0..10)
            .map(|_| {
                let (store, setups) = (database.store(), setups.clone());
                tokio::spawn(async move {
                    let mut lane = store.connect().await.unwrap();
                    lane.migrate(&setups).await.unwrap();
                    lane.check_schema().await.unwrap();
                    lane.register("billing", Some(Duration::from_secs(60))).await.unwrap()
                })
            })
            .collect();
        let mut numbers = Vec::new();
        for start in starts {
            numbers.push(start.await.unwrap_or_else(|error| panic!("round {round}: {error}")));
        }
        assert!(numbers.iter().all(|number| *number == numbers[0]), "{numbers:?}");
        assert_eq!(database.count("select count(*) from a").await, 2, "each setup ran once");
        assert_eq!(database.count("select count(*) from semel.consumer").await, 1);
        assert_eq!(database.count("select count(*) from semel.migration").await, 2);
    }
}

#[tokio::test]
async fn a_database_without_the_schema_says_so() {
    let Some(database) = Database::empty().await else { return };
    let mut lane = database.lane().await;
    let mut errors = vec![lane.check_schema().await.unwrap_err()];
    errors.push(database.lane().await.register("x", None).await.unwrap_err());
    errors.push(database.lane().await.consumer("x").await.unwrap_err());
    let keys = [common::key("a", "")];
    errors.push(database.lane().await.begin(&common::claims(semel_core::ConsumerNumber(1), &keys)).await.unwrap_err());
    for error in errors {
        assert_eq!(error.trouble, Trouble::Schema, "{error}");
        assert!(error.message.contains("run `semel migrate`"), "{error}");
    }
}

#[tokio::test]
async fn an_older_program_refuses_a_newer_schema() {
    let Some(database) = Database::fresh().await else { return };
    let mut lane = database.lane().await;
    execute(lane.conn(), "insert into semel.migration (version) values (99)").await;
    let errors = [
        lane.check_schema().await.unwrap_err(),
        migrate(&database, &[]).await.unwrap_err(),
        migrate(&database, &[setup("a", "create table never ()")]).await.unwrap_err(),
        database.lane().await.register("x", None).await.unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.trouble, Trouble::Schema);
        assert!(error.message.contains("schema 99") && error.message.contains("newer program"), "{error}");
    }
    let mut lane = database.lane().await;
    execute(lane.conn(), "delete from semel.migration where version > 1").await;
    let error = lane.check_schema().await.unwrap_err();
    assert!(error.trouble == Trouble::Schema && error.message.contains("older schema"), "{error}");
}

#[tokio::test]
async fn the_schema_as_sql_is_what_migrate_makes() {
    let (Some(by_hand), Some(by_migrate)) = (Database::empty().await, Database::fresh().await) else { return };
    let mut conn = by_hand.conn().await;
    execute(&mut conn, SCHEMA).await;
    let describe = "select string_agg(d, E'\n' order by d) from (
        select format('%s.%s %s %s %s', table_name, column_name, data_type, is_nullable, column_default)
          from information_schema.columns where table_schema = 'semel'
        union all select indexdef from pg_indexes where schemaname = 'semel'
        union all select p.oid::regprocedure::text || ' ' || md5(prosrc) || coalesce(proacl::text, 'public')
          from pg_proc p where pronamespace = 'semel'::regnamespace) as t (d)";
    let (one, two) =
        (text(&mut conn, describe).await.unwrap(), text(&mut by_migrate.conn().await, describe).await.unwrap());
    assert!(one == two && one.contains("claim_by_time"), "{one}\n\n{two}");
    let mut lane = by_hand.lane().await;
    lane.check_schema().await.unwrap();
    lane.migrate(&[]).await.unwrap();
    // The proof runs with its caller's own rights; the contract's functions run with their owner's.
    let open_to_all: Vec<&str> = one.lines().filter(|line| line.ends_with("public")).collect();
    assert!(matches!(open_to_all[..], [line] if line.starts_with("semel.prove")), "{open_to_all:?}");
}

#[tokio::test]
async fn a_setup_runs_once_and_must_not_change() {
    let Some(database) = Database::empty().await else { return };
    let first = setup("schema.sql", "create table orders (id int); insert into orders values (1)");
    migrate(&database, std::slice::from_ref(&first)).await.unwrap();
    migrate(&database, std::slice::from_ref(&first)).await.unwrap();
    migrate(&database, &[first.clone(), setup("more.sql", "insert into orders values (2)"), first.clone()])
        .await
        .unwrap();
    assert_eq!(database.count("select count(*) from orders").await, 2);

    let changed = setup("schema.sql", "create table orders (id bigint)");
    let error = migrate(&database, &[setup("new.sql", "create table never ()"), changed]).await.unwrap_err();
    assert_eq!(error.trouble, Trouble::Schema);
    assert!(
        error.message.contains("schema.sql has changed since it was run") && error.message.contains("new file"),
        "{error}"
    );
    assert_eq!(database.count("select count(*) from pg_class where relname = 'never'").await, 0);
}

#[tokio::test]
async fn a_setup_that_fails_is_named_and_nothing_is_kept() {
    let Some(database) = Database::empty().await else { return };
    let good = setup("good.sql", "create table good ()");
    for (sql, words) in [
        ("create table x (id int);\n\ncreate tabel y ();", "line 3: syntax error at or near \"tabel\""),
        ("create table x (id int);\ninsert into nowhere values (1)", "relation \"nowhere\" does not exist"),
        ("create table x (id int primary key); insert into x values (1), (1)", "duplicate key"),
        ("vacuum", "VACUUM cannot"),
    ] {
        let error = migrate(&database, &[good.clone(), setup("bad.sql", sql)]).await.unwrap_err();
        assert_eq!(error.trouble, Trouble::Other, "{error}");
        assert!(error.message.contains("bad.sql failed") && error.message.contains(words), "{error}");
    }
    assert_eq!(database.count("select count(*) from pg_namespace where nspname = 'semel'").await, 0);
    assert_eq!(database.count("select count(*) from pg_class where relname = 'good'").await, 0);
    let error = migrate(&database, &[setup("nul.sql", "select '\0'")]).await.unwrap_err();
    assert!(error.message.contains("nul.sql holds U+0000"), "{error}");
    migrate(&database, &[good]).await.unwrap();
}

#[tokio::test]
async fn a_setup_that_ends_its_transaction_is_noticed() {
    for sql in [
        "create table x (); commit",
        "commit; create table x ()",
        "begin; create table x (); commit",
        "rollback; begin",
    ] {
        let Some(database) = Database::empty().await else { return };
        let error = migrate(&database, &[setup("own.sql", sql)]).await.unwrap_err();
        assert_eq!(error.trouble, Trouble::Other);
        assert!(error.message.contains("own.sql ends its transaction itself"), "{sql}: {error}");
    }
}

#[tokio::test]
async fn what_a_setup_sets_ends_with_it() {
    let Some(database) = Database::empty().await else { return };
    let mut lane = database.lane().await;
    let before = text(lane.conn(), "show search_path").await;
    lane.migrate(&[
        setup("dump.sql", "select pg_catalog.set_config('search_path', '', false); set statement_timeout = '1h'; set role pg_read_all_data; reset role; set timezone = 'Asia/Tokyo'"),
        setup("next.sql", "create table here (v text)"),
    ])
    .await
    .unwrap();
    assert_eq!(text(lane.conn(), "show search_path").await, before);
    assert_eq!(text(lane.conn(), "show timezone").await.as_deref(), Some("UTC"));
    assert_eq!(text(lane.conn(), "show client_connection_check_interval").await.as_deref(), Some("200ms"));
    assert_eq!(text(lane.conn(), "show statement_timeout").await.as_deref(), Some("0"));
    execute(lane.conn(), "insert into here values ('x')").await;
}

#[tokio::test]
async fn a_role_with_few_rights_can_start_on_a_database_that_is_ready() {
    let Some(database) = Database::fresh().await else { return };
    let role = format!("{}_app", database.name());
    let mut conn = database.conn().await;
    execute(&mut conn, &format!("create role {role} login; revoke all on schema public from public")).await;
    let store = Postgres::new(&database.url_as(&role)).unwrap();
    let error = store.connect().await.unwrap().check_schema().await.unwrap_err();
    assert_eq!(error.trouble, Trouble::Other);
    assert!(error.message.contains("the role may not do this (permission denied for schema semel)"), "{error}");

    let grants = format!(
        "grant usage on schema semel to {role}; grant select, insert, update, delete on all tables in schema semel to {role}; grant insert on effect to {role}; grant usage on schema public to {role}"
    );
    execute(&mut conn, &grants).await;
    let mut lane = store.connect().await.unwrap();
    lane.migrate(&[]).await.unwrap();
    let consumer = lane.register("billing", None).await.unwrap();
    assert_eq!(common::process(&mut lane, consumer, "a", "").await.unwrap(), semel_core::Claim::Fresh);
    let waiting = common::waiting("w", Some("k"));
    common::let_wait(&mut lane, consumer, &[waiting]).await;
    common::bury(&mut lane, consumer, &common::letter(semel_core::Reason::Failed, Some("d"), "d")).await;
    lane.sweep(consumer, Duration::ZERO, 10).await.unwrap();

    let error = lane.migrate(&[setup("a.sql", "create table public.a ()")]).await.unwrap_err();
    assert!(error.message.contains("a.sql failed") && error.message.contains("permission denied"), "{error}");
    drop(lane);
    execute(&mut conn, &format!("drop owned by {role}; drop role {role}")).await;
}
