//! The proxy in front of a real server.

use std::time::Duration;

use sqlx::{Connection, PgConnection};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::*;
use crate::postgres::{TempDatabase, database};

const LIMIT: Duration = Duration::from_secs(10);

/// A database with an empty table `t`, and a proxy in front of it.
async fn setup() -> Option<(TempDatabase, Proxy)> {
    let database = database().await?;
    let mut direct = PgConnection::connect(&database.url()).await.unwrap();
    sqlx::raw_sql("create table t (id int)").execute(&mut direct).await.unwrap();
    let proxy = Proxy::start(database.address()).await;
    Some((database, proxy))
}

async fn connect(database: &TempDatabase, proxy: &Proxy) -> Result<PgConnection, sqlx::Error> {
    PgConnection::connect(&database.url_through(proxy.addr())).await
}

/// One row in one transaction, by way of the proxy.
async fn insert(database: &TempDatabase, proxy: &Proxy) -> Result<(), sqlx::Error> {
    let mut connection = connect(database, proxy).await?;
    let mut transaction = connection.begin().await?;
    sqlx::query("insert into t values ($1)").bind(1).execute(&mut *transaction).await?;
    transaction.commit().await
}

/// The rows that are really there, once no transaction can add any.
async fn rows(database: &TempDatabase) -> i64 {
    let mut direct = PgConnection::connect(&database.url()).await.unwrap();
    let mut transaction = direct.begin().await.unwrap();
    sqlx::raw_sql("lock table t in access exclusive mode").execute(&mut *transaction).await.unwrap();
    sqlx::query_scalar("select count(*) from t").fetch_one(&mut *transaction).await.unwrap()
}

/// The beginning of a session by hand, for what sqlx does not do.
fn startup_packet() -> Vec<u8> {
    let mut packet = vec![0, 0, 0, 0, 0, 3, 0, 0];
    packet.extend_from_slice(b"user\0semel\0database\0semel\0\0");
    packet[3] = u8::try_from(packet.len()).unwrap();
    packet
}

#[tokio::test]
async fn without_a_fault_nothing_changes() {
    let Some((database, proxy)) = setup().await else { return };
    insert(&database, &proxy).await.unwrap();
    // Larger than every buffer on the way.
    let mut connection = connect(&database, &proxy).await.unwrap();
    let large = "x".repeat(3_000_000);
    let echo: String = sqlx::query_scalar("select $1::text").bind(&large).fetch_one(&mut connection).await.unwrap();
    assert!(echo == large);
    assert_eq!(rows(&database).await, 1);
    assert_eq!(proxy.counts(), Counts { connections: 2, commits: 1, ..Counts::default() });
}

#[tokio::test]
async fn a_swallowed_answer_leaves_a_durable_commit() {
    let Some((database, proxy)) = setup().await else { return };
    proxy.swallow_commit_answers(2);
    insert(&database, &proxy).await.unwrap_err();
    // The answer was awaited, so the row is there without waiting for any lock.
    let mut direct = PgConnection::connect(&database.url()).await.unwrap();
    let count: i64 = sqlx::query_scalar("select count(*) from t").fetch_one(&mut direct).await.unwrap();
    assert_eq!(count, 1);

    // The second fault is still there, and finds a transaction that cannot be committed.
    let mut connection = connect(&database, &proxy).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    sqlx::raw_sql("select 1 / 0").execute(&mut *transaction).await.unwrap_err();
    transaction.commit().await.unwrap_err();

    insert(&database, &proxy).await.unwrap();
    assert_eq!(rows(&database).await, 2);
    let expected =
        Counts { connections: 3, commits: 3, swallowed_commits: 1, swallowed_refusals: 1, ..Counts::default() };
    assert_eq!(proxy.counts(), expected);
}

#[tokio::test]
async fn a_commit_inside_a_longer_query_is_swallowed_with_all_its_answers() {
    let Some((database, proxy)) = setup().await else { return };
    proxy.swallow_commit_answers(1);
    let mut connection = connect(&database, &proxy).await.unwrap();
    sqlx::raw_sql("begin; insert into t values (1); COMMIT; select 1").execute(&mut connection).await.unwrap_err();
    assert_eq!(rows(&database).await, 1);
    assert_eq!(proxy.counts().swallowed_commits, 1);
}

#[tokio::test]
async fn a_cut_before_commit_leaves_nothing() {
    let Some((database, proxy)) = setup().await else { return };
    proxy.cut_before_commit(1);
    insert(&database, &proxy).await.unwrap_err();
    assert_eq!(rows(&database).await, 0);
    insert(&database, &proxy).await.unwrap();
    assert_eq!(rows(&database).await, 1);
    assert_eq!(proxy.counts().cut_before_commit, 1);
}

#[tokio::test]
async fn a_client_can_be_gone_before_its_commit_is_done() {
    let Some((database, proxy)) = setup().await else { return };
    // A deferred trigger keeps the server busy inside COMMIT.
    let mut direct = PgConnection::connect(&database.url()).await.unwrap();
    sqlx::raw_sql(
        "create function slow() returns trigger language plpgsql as 'begin perform pg_sleep(0.5); return null; end';
         create constraint trigger slow after insert on t deferrable initially deferred
         for each row execute function slow()",
    )
    .execute(&mut direct)
    .await
    .unwrap();
    proxy.cut_while_committing(1);
    insert(&database, &proxy).await.unwrap_err();
    let early: i64 = sqlx::query_scalar("select count(*) from t").fetch_one(&mut direct).await.unwrap();
    assert_eq!(early, 0, "the server is still committing");
    assert_eq!(rows(&database).await, 1);
    assert_eq!(proxy.counts().cut_while_committing, 1);
}

#[tokio::test]
async fn all_connections_can_be_cut_and_new_ones_refused() {
    let Some((database, proxy)) = setup().await else { return };
    let mut first = connect(&database, &proxy).await.unwrap();
    let mut second = connect(&database, &proxy).await.unwrap();
    proxy.refuse_connections(true);
    assert_eq!(proxy.cut_all().await, 2);
    first.ping().await.unwrap_err();
    second.ping().await.unwrap_err();
    connect(&database, &proxy).await.unwrap_err();
    proxy.refuse_connections(false);
    connect(&database, &proxy).await.unwrap().ping().await.unwrap();
    let counts = proxy.counts();
    assert_eq!((counts.connections, counts.cut_connections, counts.refused_connections), (3, 2, 1));
    assert_eq!(proxy.cut_all().await, 1);
}

#[tokio::test]
async fn a_black_hole_answers_when_it_ends() {
    let Some((database, proxy)) = setup().await else { return };
    let mut connection = connect(&database, &proxy).await.unwrap();
    proxy.black_hole(true);
    let mut ping = Box::pin(connection.ping());
    timeout(Duration::from_millis(100), &mut ping).await.unwrap_err();
    let mut newcomer = Box::pin(connect(&database, &proxy));
    timeout(Duration::from_millis(100), &mut newcomer).await.expect_err("no connection");
    assert_eq!(proxy.counts().held_messages, 2);
    proxy.black_hole(false);
    timeout(LIMIT, ping).await.unwrap().unwrap();
    timeout(LIMIT, newcomer).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_dropped_proxy_is_an_unreachable_server() {
    let Some((database, proxy)) = setup().await else { return };
    let url = database.url_through(proxy.addr());
    let mut connection = PgConnection::connect(&url).await.unwrap();
    drop(proxy);
    connection.ping().await.unwrap_err();
    PgConnection::connect(&url).await.unwrap_err();
}

#[tokio::test]
async fn a_request_for_encryption_is_passed_on() {
    let Some((_database, proxy)) = setup().await else { return };
    let mut client = TcpStream::connect(proxy.addr()).await.unwrap();
    client.write_all(&[8_u32.to_be_bytes(), 80_877_103_u32.to_be_bytes()].concat()).await.unwrap();
    let answer = timeout(LIMIT, client.read_u8()).await.unwrap().unwrap();
    if answer == b'S' {
        // A server with TLS, which is not the one of `scripts/services`: what follows would be encrypted.
        return;
    }
    assert_eq!(answer, b'N');
    client.write_all(&startup_packet()).await.unwrap();
    // Authentication, or an error that says why not: either way, the server has read it.
    let answer = timeout(LIMIT, client.read_u8()).await.unwrap().unwrap();
    assert!(matches!(answer, b'R' | b'E'), "{answer}");
}

#[tokio::test]
async fn a_query_can_be_cancelled_through_the_proxy() {
    let Some((_database, proxy)) = setup().await else { return };
    let mut client = Peer::new(TcpStream::connect(proxy.addr()).await.unwrap());
    client.write(&startup_packet()).await.unwrap();
    // BackendKeyData holds the process id and the secret that a cancellation shows.
    let mut key = None;
    loop {
        let message = timeout(LIMIT, client.next_message()).await.unwrap().unwrap().expect("a message");
        match message.bytes()[0] {
            b'K' => key = Some(message.bytes()[5..13].to_vec()),
            // A server that asks for a password or another role is not the one of `scripts/services`.
            b'E' => return,
            b'Z' => break,
            _ => {}
        }
    }
    client.write(b"Q\0\0\0\x18select pg_sleep(60)\0").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;

    let mut cancel = TcpStream::connect(proxy.addr()).await.unwrap();
    let request = [16_u32.to_be_bytes().to_vec(), 80_877_102_u32.to_be_bytes().to_vec(), key.unwrap()].concat();
    cancel.write_all(&request).await.unwrap();
    drop(cancel);

    let error = loop {
        let message = timeout(LIMIT, client.next_message()).await.unwrap().unwrap().expect("a message");
        if message.bytes()[0] == b'E' {
            break String::from_utf8_lossy(message.bytes()).into_owned();
        }
    };
    assert!(error.contains("57014"), "{error}");
}
