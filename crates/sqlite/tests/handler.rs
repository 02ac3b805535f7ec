//! SQL as a handler: the relation `messages`, and the author's statements on it.

mod common;

use common::*;
use semel_core::{Claim, Lane, Trouble, Writes};
use semel_sqlite::SqliteLane;
use semel_sqlite::handler::SqlHandler;

const HEADERS: &str = r#"{"tenant":"acme","Tenant":"x\u0000y"}"#;

fn message(id: &str, body: &str) -> String {
    format!(
        r#"{{"id":"{id}","kind":"payment.requested","key":"acc","time":"2026-03-04T10:20:30.5Z","headers":{HEADERS},"body":{body},"attempt":3}}"#
    )
}

fn batch(messages: &[String]) -> String {
    format!("[{}]", messages.join(","))
}

/// Claims the ids, runs the handler over the bodies, commits.
async fn handle(shop: &Shop, lane: &mut SqliteLane, sql: &[&str], bodies: &[&str]) -> sqlx::Result<()> {
    let ids: Vec<String> = (0..bodies.len()).map(|i| format!("{i:03}")).collect();
    let keys: Vec<_> = ids.iter().map(|id| key(id)).collect();
    assert_eq!(begin(lane, shop.consumer, &keys).await.unwrap().claims, vec![Claim::Fresh; ids.len()]);
    let messages: Vec<_> = ids.iter().zip(bodies).map(|(id, body)| message(id, body)).collect();
    let ran = SqlHandler::new(sql.iter().copied()).run(lane.conn(), &batch(&messages)).await;
    match ran {
        Ok(()) => drop(lane.commit(&Writes::default()).await.unwrap()),
        Err(_) => lane.rollback().await.unwrap(),
    }
    // The next call may take the same ids.
    sqlx::raw_sql("delete from semel_claim").execute(lane.conn()).await.unwrap();
    ran
}

#[tokio::test]
async fn one_statement_for_the_whole_batch() {
    let (shop, mut lane) = shop().await;
    let sql = "insert into effects select id || ' ' || (body->>'account') || ' ' || (body->>'amount') from messages";
    handle(&shop, &mut lane, &[sql], &[r#"{"account":"a","amount":1}"#, r#"{"amount":2.50,"account":"b"}"#])
        .await
        .unwrap();
    handle(&shop, &mut lane, &[sql], &[r#"{"account":"c","amount":3}"#]).await.unwrap();
    assert_eq!(effects(&shop).await, ["000 a 1", "001 b 2.5", "000 c 3"]);
}

#[tokio::test]
async fn every_column() {
    let (shop, mut lane) = shop().await;
    let sql = "insert into effects
        select format('%s|%s|%s|%s|%s|%s|%s|%s|%s', id, kind, key, time, headers->>'tenant', attempt, body->>'x', typeof(attempt),
                      json_valid(headers) and json_valid(body))
        from messages";
    handle(&shop, &mut lane, &[sql], &[r#"{"x":"y"}"#]).await.unwrap();
    let no_key = r#"[{"id":"m","kind":"k","key":null,"time":null,"headers":{},"body":{},"attempt":1}]"#;
    begin(&mut lane, shop.consumer, &[]).await.unwrap();
    let nulls =
        "insert into effects select 'nulls' from messages where key is null and time is null and headers = '{}'";
    SqlHandler::new([nulls]).run(lane.conn(), no_key).await.unwrap();
    lane.commit(&Writes::default()).await.unwrap();
    assert_eq!(effects(&shop).await, ["000|payment.requested|acc|2026-03-04T10:20:30.5Z|acme|3|y|integer|1", "nulls"]);
}

/// Bodies of every shape are JSON text, and numbers are what they were.
#[tokio::test]
async fn bodies_are_exact() {
    let (shop, mut lane) = shop().await;
    let sql = "insert into effects select body || ' ' || json_valid(body) || ' ' || typeof(body->>'$') || ' ' || ifnull(body->>'$', 'NULL') from messages";
    for (body, row) in [
        ("null", "null 1 null NULL"),
        ("true", "true 1 integer 1"),
        ("\"text\"", "\"text\" 1 text text"),
        ("\"\"", "\"\" 1 text "),
        ("\"a\\\"b\\\\c\\n\"", "\"a\\\"b\\\\c\\n\" 1 text a\"b\\c\n"),
        ("9007199254740993", "9007199254740993 1 integer 9007199254740993"),
        ("9223372036854775807", "9223372036854775807 1 integer 9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808 1 integer -9223372036854775808"),
        ("123456789012345678901234567890", "123456789012345678901234567890 1 real 1.23456789012346e+29"),
        ("1.10", "1.10 1 real 1.1"),
        ("[1,[2,{\"a\":[3]}]]", "[1,[2,{\"a\":[3]}]] 1 text [1,[2,{\"a\":[3]}]]"),
        ("{\"b\":1,\"a\":{\"c\":[{}]}}", "{\"b\":1,\"a\":{\"c\":[{}]}} 1 text {\"b\":1,\"a\":{\"c\":[{}]}}"),
        ("\"aGVsbG8=\"", "\"aGVsbG8=\" 1 text aGVsbG8="),
    ] {
        sqlx::raw_sql("delete from effects").execute(lane.conn()).await.unwrap();
        handle(&shop, &mut lane, &[sql], &[body]).await.unwrap();
        assert_eq!(effects(&shop).await, [row], "{body}");
    }
    let nested = "insert into effects select body->>'$.lines[1].n' || ' ' || typeof(body->>'$.lines[1].n') || ' ' || (body->'a'->>'b') from messages";
    handle(&shop, &mut lane, &[nested], &[r#"{"lines":[{"n":1},{"n":9007199254740993}],"a":{"b":"deep"}}"#])
        .await
        .unwrap();
    assert_eq!(effects(&shop).await.last().unwrap(), "9007199254740993 integer deep");
}

#[tokio::test]
async fn upserts_several_statements_and_rows_that_nobody_reads() {
    let (shop, mut lane) = shop().await;
    sqlx::raw_sql("create table balance (account text primary key, amount integer)")
        .execute(lane.conn())
        .await
        .unwrap();
    let upsert = "insert into balance select body->>'account', sum(body->>'amount') from messages where true group by 1
                  on conflict (account) do update set amount = amount + excluded.amount returning account; -- a comment; with a semicolon
                  select * from balance as a, balance as b, messages;
                  update balance set amount = amount where account in (select body->>'account' from messages);";
    let log = "with recent as (select id from messages) insert into effects select id from recent; ; ";
    let bodies = [r#"{"account":"a","amount":1}"#, r#"{"account":"a","amount":2}"#, r#"{"account":"b","amount":5}"#];
    for _ in 0..3 {
        handle(&shop, &mut lane, &[upsert, log], &bodies).await.unwrap();
    }
    assert_eq!(number(&mut lane, "select max(amount) * 100 + min(amount) from balance").await, 1509);
    assert_eq!(effects(&shop).await.len(), 9);
}

#[tokio::test]
async fn an_error_in_a_later_statement_undoes_the_earlier() {
    let (shop, mut lane) = shop().await;
    let sql = ["insert into effects select id from messages", "insert into nowhere select id from messages"];
    let error = handle(&shop, &mut lane, &sql, &["1"]).await.unwrap_err();
    assert!(error.to_string().contains("no such table: nowhere"));
    assert_eq!(effects(&shop).await, [] as [&str; 0]);
    // The transaction that made `messages` was rolled back: it is made again.
    handle(&shop, &mut lane, &sql[..1], &["1"]).await.unwrap();
    handle(&shop, &mut lane, &sql[..1], &["1"]).await.unwrap();
    assert_eq!(effects(&shop).await, ["000", "000"]);
}

#[tokio::test]
async fn a_table_of_the_same_name_is_hidden_and_safe() {
    let (shop, mut lane) = shop().await;
    sqlx::raw_sql("create table messages (v); insert into messages values ('mine')")
        .execute(lane.conn())
        .await
        .unwrap();
    handle(
        &shop,
        &mut lane,
        &["insert into effects select id from messages; insert into effects select v from main.messages"],
        &["1"],
    )
    .await
    .unwrap();
    assert_eq!(effects(&shop).await, ["000", "mine"]);
    let mut other = shop.lane().await;
    assert_eq!(
        number(&mut other, "select count(*) from messages where v = 'mine'").await,
        1,
        "on other connections it is there"
    );
}

#[tokio::test]
async fn check_prepares_and_runs_nothing() {
    let (shop, mut lane) = shop().await;
    let good =
        "insert into effects select body->>'x' from messages where true on conflict do nothing; delete from effects";
    SqlHandler::new([good, "select 1"]).check(lane.conn()).await.unwrap();
    assert_eq!(number(&mut lane, "select count(*) from effects").await, 0);
    for (sql, part) in [
        ("insert into effects selekt 1", "near \"selekt\": syntax error"),
        ("select 1; select bodi from messages", "no such column: bodi"),
        ("insert into ledger select id from messages", "no such table: ledger"),
        ("  \n", "there is no statement in it"),
        ("insert into effects values (?)", "it has parameters"),
        ("insert into effects values (:id)", "it has parameters"),
        ("select 1;\0", "U+0000"),
    ] {
        let error = SqlHandler::new([good, sql]).check(lane.conn()).await.unwrap_err();
        assert_eq!(error.trouble, Trouble::Other);
        assert!(
            error.message.starts_with("SQLite does not accept the handler's SQL: ") && error.message.contains(part),
            "{error}"
        );
    }
    effect(lane.conn(), "the connection works on").await.unwrap();
    assert_eq!(effects(&shop).await.len(), 1);
}

#[tokio::test]
async fn a_thousand_messages() {
    let (shop, mut lane) = shop().await;
    let bodies = vec![r#"{"account":"a","amount":9007199254740993,"lines":[1,2,3]}"#; 1000];
    handle(&shop, &mut lane, &["insert into effects select body->>'amount' from messages"], &bodies).await.unwrap();
    assert_eq!(effects(&shop).await, vec!["9007199254740993"; 1000]);
}
