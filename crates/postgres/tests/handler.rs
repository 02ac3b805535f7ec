//! Handlers that are SQL: the author's text as it was written, over the relation `messages`.

mod common;

use common::{Database, begin, execute, key, text};
use semel_core::{ConsumerNumber, Lane, Records, Store, Trouble, Writes};
use semel_postgres::{Postgres, PostgresLane, SqlHandler};

const BATCH: &str = r#"[
    {"id":"1","kind":"pay","key":"ada","time":"2026-03-04T10:20:30.25Z","headers":{"h":"x"},"body":{"account":"ada","amount":5},"attempt":1},
    {"id":"2","kind":"pay","key":null,"time":null,"headers":{},"body":{"account":"ada","amount":7},"attempt":2},
    {"id":"3","kind":"pay","key":"bob","time":"2026-03-04T10:20:30+02:00","headers":{},"body":[1,"it's",null],"attempt":1}
]"#;

fn handler(texts: &[&str]) -> SqlHandler {
    SqlHandler::new(texts.iter().map(|text| (*text).to_owned()), false)
}

async fn registered(database: &Database) -> (PostgresLane, ConsumerNumber) {
    let mut lane = database.lane().await;
    let consumer = lane.register("billing", None).await.unwrap();
    execute(
        lane.conn(),
        "create table account (name text primary key, total int not null default 0);
         create table ledger (id text primary key, account text, amount int);
         create function note(v text) returns int language sql volatile as 'insert into effect values (v) returning 1'",
    )
    .await;
    (lane, consumer)
}

/// Checks and runs the texts for a batch, in a committed transaction of their own.
async fn run(lane: &mut PostgresLane, consumer: ConsumerNumber, texts: &[&str], id: &str) {
    let handler = handler(texts);
    handler.check(lane.conn()).await.unwrap();
    begin(lane, consumer, &[key(id, "")]).await;
    handler.run(lane.conn(), BATCH).await.unwrap_or_else(|error| panic!("{texts:?}: {error}"));
    lane.commit(&Writes::default()).await.unwrap();
}

#[tokio::test]
async fn the_batch_is_a_relation() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    execute(lane.conn(), "set timezone = 'Europe/Berlin'; create table seen as select ''::text as v").await;
    let all = "insert into seen select format('%s|%s|%s|%s|%s|%s|%s', id, kind, key, extract(epoch from time), headers, body, attempt) from messages";
    run(&mut lane, consumer, &[all], "a").await;
    let seen: Vec<String> =
        sqlx::query_scalar("select v from seen where v <> '' order by v").fetch_all(lane.conn()).await.unwrap();
    assert_eq!(
        seen,
        [
            r#"1|pay|ada|1772619630.250000|{"h": "x"}|{"amount": 5, "account": "ada"}|1"#,
            r#"2|pay|||{}|{"amount": 7, "account": "ada"}|2"#,
            r#"3|pay|bob|1772612430.000000|{}|[1, "it's", null]|1"#,
        ]
    );
    let types = "select string_agg(format('%s %s', attname, atttypid::regtype), ', ' order by attnum) from pg_attribute where attrelid = 'messages'::regclass";
    assert_eq!(
        text(lane.conn(), types).await.as_deref(),
        Some("id text, kind text, key text, \"time\" timestamp with time zone, headers jsonb, body jsonb, attempt integer").map(|t| t.replace('"', "")).as_deref()
    );
    // The batch ends with its transaction, and nobody else sees it.
    assert_eq!(text(lane.conn(), "select count(*)::text from messages").await.as_deref(), Some("0"));

    let bytes = SqlHandler::new(
        ["insert into seen select convert_from(decode(body #>> '{}', 'base64'), 'UTF8') from messages".into()],
        true,
    );
    assert!(bytes.body_as_bytes());
    begin(&mut lane, consumer, &[key("bytes", "")]).await;
    bytes.run(lane.conn(), r#"[{"id":"b","body":"w7wK"}]"#).await.unwrap();
    lane.commit(&Writes::default()).await.unwrap();
    assert_eq!(database.count("select count(*) from seen where v = E'ü\\n'").await, 1);
}

#[tokio::test]
async fn every_sort_of_statement_runs_as_it_was_written() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let insert = "insert into ledger select id, body->>'account', (body->>'amount')::int from messages where body->>'account' is not null -- so";
    run(&mut lane, consumer, &[insert], "insert").await;
    assert_eq!(database.count("select sum(amount) from ledger").await, 12);

    // MERGE, with the sums first: several messages for one row.
    let merge = "merge into account a using (select body->>'account' as name, sum((body->>'amount')::int) as amount from messages
                   where jsonb_typeof(body) = 'object' group by 1) m on a.name = m.name
                 when matched then update set total = a.total + m.amount when not matched then insert values (m.name, m.amount)";
    run(&mut lane, consumer, &[merge], "merge 1").await;
    run(&mut lane, consumer, &[merge], "merge 2").await;
    assert_eq!(database.count("select total::int8 from account where name = 'ada'").await, 24);

    let with =
        "with paid as (update account set total = 0 where name in (select key from messages) returning name, total),
                     noted as (insert into effect select name from paid returning v)
                select * from noted";
    run(&mut lane, consumer, &[with], "with").await;
    assert_eq!(database.effects().await, 1);

    // A SELECT is executed to its end, whatever it returns; to the last of many rows.
    run(&mut lane, consumer, &["select note(g::text), id from messages, generate_series(1, 10000) g"], "select").await;
    assert_eq!(database.effects().await, 1 + 30_000);

    let several = "create temp table step (id text) on commit drop; -- ; not here
                   insert into step select id from messages;
                   do $$ begin insert into effect select 'do;' || id from step; end $$;
                   savepoint s; insert into effect values ('gone'); rollback to s;
                   select note('several')";
    run(&mut lane, consumer, &[several, "insert into effect values ('second text')"], "several").await;
    assert_eq!(database.count("select count(*) from effect where v ~ '^(do;|several|second text)'").await, 5);
    assert_eq!(database.count("select count(*) from effect where v = 'gone'").await, 0);
}

#[tokio::test]
async fn the_view_comes_back_after_every_rollback() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let handler = handler(&["insert into effect select id from messages"]);
    for _ in 0..3 {
        begin(&mut lane, consumer, &[key("a", "")]).await;
        handler.run(lane.conn(), BATCH).await.unwrap();
        lane.rollback().await.unwrap();
    }
    for id in ["a", "b"] {
        begin(&mut lane, consumer, &[key(id, "")]).await;
        handler.run(lane.conn(), BATCH).await.unwrap();
        lane.commit(&Writes::default()).await.unwrap();
    }
    assert_eq!(database.effects().await, 6);
    // A table of that name does not stand in the way.
    execute(lane.conn(), "create table messages (nothing int)").await;
    begin(&mut lane, consumer, &[key("c", "")]).await;
    handler.run(lane.conn(), BATCH).await.unwrap();
    lane.commit(&Writes::default()).await.unwrap();
    assert_eq!(database.effects().await, 9);
}

#[tokio::test]
async fn what_the_author_wrote_wrong_is_said_in_postgresqls_words() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, _) = registered(&database).await;
    for (texts, words) in [
        (&["\n insrt into effect values (1)"][..], "line 2: syntax error at or near \"insrt\""),
        (
            &["select 1", "select\nnothing from messages"],
            "statement 2 of the list: line 2: column \"nothing\" does not exist",
        ),
        (&["insert into nowhere select id from messages"], "relation \"nowhere\" does not exist"),
        (&["select 1;\n\nselect 'ü', body.x from messages"], "line 3: missing FROM-clause entry"),
        (&["create temp table t (n int); insert into t valus (1)"], "syntax error at or near \"valus\""),
        (&["insert into effect values ($1)"], "line 1: it has parameters ($1)"),
        (&["insert into effect values ('x');\nCommit"], "line 2: COMMIT ends the transaction"),
        (&["select 1; copy effect from stdin"], "line 1: COPY from STDIN"),
        (&["rollback"], "ROLLBACK ends the transaction"),
        (&["-- nothing"], "it is empty"),
        (&["select 'open"], "unterminated quoted string"),
    ] {
        let error = handler(texts).check(lane.conn()).await.unwrap_err();
        assert_eq!(error.trouble, Trouble::Other);
        assert!(
            error.message.contains("refuses the handler's SQL") && error.message.contains(words),
            "{texts:?}: {error}"
        );
        lane = database.lane().await;
    }
    for texts in [
        &["create temp table t (n int); insert into t select 1; select * from t"][..],
        &["create temp table t (n int)", "insert into t select 1"],
        &["select body->'a' ? 'b' from messages"],
        &["do $$ begin commit; end $$"],
    ] {
        handler(texts).check(lane.conn()).await.unwrap_or_else(|error| panic!("{texts:?}: {error}"));
        lane = database.lane().await;
    }
    assert_eq!(database.effects().await, 0, "checking runs nothing");
    assert_eq!(database.count("select count(*) from pg_class where relname in ('t', 'messages')").await, 0);
}

#[tokio::test]
async fn a_failing_handler_is_told_by_its_code_and_a_commit_of_its_own_by_the_proof() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    begin(&mut lane, consumer, &[key("a", "")]).await;
    let error = handler(&["select 1 / (attempt - attempt) from messages"]).run(lane.conn(), BATCH).await.unwrap_err();
    assert_eq!(Postgres::trouble(&error), Trouble::Other);
    lane.rollback().await.unwrap();

    begin(&mut lane, consumer, &[key("a", "")]).await;
    handler(&["insert into effect values ('x'); commit"]).run(lane.conn(), BATCH).await.unwrap();
    assert!(lane.commit(&Writes::default()).await.unwrap_err().message.contains("ended the transaction itself"));
}

/// A table that is altered under a prepared statement fails one try, not all of them.
#[tokio::test]
async fn an_altered_table_costs_one_try() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let handler = handler(&["select * from account"]);
    begin(&mut lane, consumer, &[key("a", "")]).await;
    handler.run(lane.conn(), BATCH).await.unwrap();
    lane.commit(&Writes::default()).await.unwrap();
    execute(&mut database.conn().await, "alter table account add column more int").await;
    let mut failures = 0;
    for _ in 0..3 {
        begin(&mut lane, consumer, &[key("b", "")]).await;
        if handler.run(lane.conn(), BATCH).await.is_err() {
            failures += 1;
        }
        lane.rollback().await.unwrap();
    }
    assert_eq!(failures, 1);
}

#[tokio::test]
async fn a_large_batch_is_one_relation() {
    let Some(database) = Database::fresh().await else { return };
    let (mut lane, consumer) = registered(&database).await;
    let body = "x".repeat(10_000);
    let all: Vec<serde_json::Value> =
        (0..100).map(|n| serde_json::json!({ "id": n.to_string(), "body": { "text": body } })).collect();
    begin(&mut lane, consumer, &[key("a", "")]).await;
    let handler = handler(&["insert into effect select id from messages where length(body->>'text') = 10000"]);
    handler.run(lane.conn(), &serde_json::Value::from(all).to_string()).await.unwrap();
    lane.commit(&Writes::default()).await.unwrap();
    assert_eq!(database.effects().await, 100);
}
