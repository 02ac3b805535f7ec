//! Connecting, and what is said where it cannot be done.

mod common;

use common::{Database, execute, text};
use semel_core::{Lane, Store, Trouble};
use semel_postgres::Postgres;
use std::time::{Duration, Instant};

#[tokio::test]
async fn a_connection_is_named_and_notices_that_its_client_has_gone() {
    let Some(database) = Database::empty().await else { return };
    let mut lane = database.lane().await;
    assert_eq!(text(lane.conn(), "show application_name").await.as_deref(), Some("semel"));
    assert_eq!(text(lane.conn(), "show client_connection_check_interval").await.as_deref(), Some("200ms"));
    let mut lane = Postgres::new(&database.url("?application_name=till")).unwrap().connect().await.unwrap();
    assert_eq!(text(lane.conn(), "show application_name").await.as_deref(), Some("till"));
    let store = database.store();
    assert_eq!(Store::lanes_max(&store), 16);
    assert_eq!(Store::lanes_max(&store.clone().lanes_max(3)), 3);
    assert_eq!(Store::lanes_max(&store.lanes_max(0)), 1);
}

#[tokio::test]
async fn every_failure_has_a_sentence() {
    let Some(database) = Database::fresh().await else { return };
    let role = format!("{}_few", database.name());
    let mut conn = database.conn().await;
    execute(&mut conn, &format!("create role {role} login connection limit 1")).await;

    let url = database.url("");
    let (place, _) = url.rsplit_once('/').unwrap();
    let (before, _) = place.rsplit_once(':').unwrap();
    let connect = async |url: String| Postgres::new(&url).unwrap().connect().await.map(drop).unwrap_err();

    let error = connect(format!("{before}:1/nowhere")).await;
    assert_eq!(error.trouble, Trouble::Unreachable);
    assert!(error.message.contains(":1/nowhere") && error.message.contains("check that it runs"), "{error}");

    let error = connect(format!("{place}/semel_there_is_no_such")).await;
    assert_eq!(error.trouble, Trouble::Other);
    assert!(error.message.contains("no such database") && error.message.contains("semel_there_is_no_such"), "{error}");

    let error = connect(database.url_as("semel_nobody")).await;
    assert_eq!(error.trouble, Trouble::Other);
    assert!(error.message.contains("refused the user name or password"), "{error}");

    let only = Postgres::new(&database.url_as(&role)).unwrap();
    let lane = only.connect().await.unwrap();
    let error = only.connect().await.map(drop).unwrap_err();
    assert_eq!(error.trouble, Trouble::Unreachable);
    assert!(error.message.contains("no connection left") && error.message.contains("fewer lanes"), "{error}");
    drop(lane);

    execute(&mut conn, &format!("revoke connect on database {} from public", database.name())).await;
    let error = eventually(&only).await;
    assert_eq!(error.trouble, Trouble::Other);
    assert!(
        error.message.contains("may not do this") && error.message.contains("permission denied for database"),
        "{error}"
    );
    execute(&mut conn, &format!("drop owned by {role}; drop role {role}")).await;
}

/// The error that stays when the connection of a dropped lane has gone.
async fn eventually(store: &Postgres) -> semel_core::StoreError {
    loop {
        match store.connect().await {
            Err(error) if error.message.contains("no connection left") => {
                tokio::time::sleep(Duration::from_millis(20)).await
            }
            other => return other.map(drop).unwrap_err(),
        }
    }
}

#[tokio::test]
async fn neither_a_stranger_nor_silence_holds_it_up() {
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = stranger.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = stranger.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").ok();
    });
    let error =
        Postgres::new(&format!("postgres://u@127.0.0.1:{port}/d")).unwrap().connect().await.map(drop).unwrap_err();
    assert!(error.message.contains(&format!("127.0.0.1:{port}/d as u")), "{error}");

    let port = silent.local_addr().unwrap().port();
    let started = Instant::now();
    let store = Postgres::new(&format!("postgres://u:s3cret@127.0.0.1:{port}/d?connect_timeout=1")).unwrap();
    let error = store.connect().await.map(drop).unwrap_err();
    assert_eq!(error.trouble, Trouble::Unreachable);
    assert!(error.message.contains("did not answer within 1 s") && !error.message.contains("s3cret"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn another_encoding_is_refused() {
    let Some(database) = Database::empty().await else { return };
    let name = format!("{}_latin", database.name());
    let mut conn = database.conn().await;
    execute(&mut conn, &format!("create database {name} template template0 encoding 'LATIN1' locale 'C'")).await;
    let url = database.url("").replace(database.name(), &name);
    let error = Postgres::new(&url).unwrap().connect().await.map(drop).unwrap_err();
    assert!(error.message.contains("encoding LATIN1") && error.message.contains("encoding 'UTF8'"), "{error}");
    execute(&mut conn, &format!("drop database {name} with (force)")).await;
}

#[tokio::test]
async fn capacity_is_the_least_of_all_limits() {
    let Some(database) = Database::empty().await else { return };
    let role = format!("{}_cap", database.name());
    let mut conn = database.conn().await;
    execute(&mut conn, &format!("create role {role} login connection limit 5")).await;
    let whole = database.store().capacity().await.unwrap();
    let max: i64 = text(&mut conn, "show max_connections").await.unwrap().parse().unwrap();
    assert!(whole > 5 && (whole as i64) < max, "{whole}");

    let store = Postgres::new(&database.url_as(&role)).unwrap();
    assert_eq!(store.capacity().await.unwrap(), 5);
    let lanes = [store.connect().await.unwrap(), store.connect().await.unwrap()];
    assert!(settles(&store, 3).await);
    execute(&mut conn, &format!("alter database {} connection limit 4", database.name())).await;
    // This test's own connection and the two lanes.
    assert!(settles(&store, 1).await);
    drop(lanes);
    execute(&mut conn, &format!("alter database {} connection limit -1", database.name())).await;
    assert!(settles(&store, 5).await);
    execute(&mut conn, &format!("drop role {role}")).await;
}

/// A connection that was closed is gone a moment later.
async fn settles(store: &Postgres, expected: usize) -> bool {
    for _ in 0..100 {
        if store.capacity().await.is_ok_and(|capacity| capacity == expected) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}
