//! Where the file is, and what may be wrong with it: one sentence each.

mod common;

use common::*;
use semel_core::{Lane, Records, Store, StoreError, Trouble, Writes};
use semel_sqlite::Sqlite;
use std::path::Path;
use std::time::Duration;

async fn connect_error(path: &Path) -> StoreError {
    match Sqlite::open(path).unwrap().connect().await {
        Ok(_) => panic!("{} can be opened", path.display()),
        Err(error) => error,
    }
}

fn says(error: &StoreError, trouble: Trouble, part: &str) {
    assert_eq!(error.trouble, trouble, "{error}");
    assert!(error.message.contains(part), "{error}");
}

#[test]
fn what_is_no_path_is_refused_at_once() {
    for (path, part) in [
        ("", "name a file"),
        (":memory:", "no place for claims"),
        ("file:shop.db?mode=memory", "no place for claims"),
        ("sqlite:shop.db", "without `sqlite:`"),
        ("a\0b", "U+0000"),
    ] {
        says(&Sqlite::open(path).unwrap_err(), Trouble::Other, part);
    }
    assert!(Sqlite::open("shop.db").unwrap().path().is_absolute());
}

#[tokio::test]
async fn names_that_sqlite_could_take_for_an_address_are_names() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["a?b=c#d%20e.db", "ä ö.db", "it's.db"] {
        let path = directory.path().join(name);
        Sqlite::open(&path).unwrap().connect().await.unwrap().migrate(&[]).await.unwrap();
        assert!(path.is_file(), "{name}");
    }
}

#[tokio::test]
async fn a_missing_directory_and_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("nowhere");
    says(&connect_error(&missing.join("shop.db")).await, Trouble::Other, "nowhere does not exist: create it");
    says(&connect_error(directory.path()).await, Trouble::Other, "is a directory: name a file in it");
    std::fs::write(&missing, "").unwrap();
    says(&connect_error(&missing.join("shop.db")).await, Trouble::Other, "nowhere is not a directory");
}

#[tokio::test]
async fn what_is_not_a_database_stays_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("semel.toml");
    for text in ["store = \"sqlite:semel.toml\"\n".to_owned(), "x".repeat(10_000)] {
        std::fs::write(&path, &text).unwrap();
        says(&connect_error(&path).await, Trouble::Other, "is not an SQLite database");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
}

#[tokio::test]
async fn a_damaged_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let mut lane = Sqlite::open(&path).unwrap().connect().await.unwrap();
    lane.migrate(&[]).await.unwrap();
    sqlx::raw_sql("pragma wal_checkpoint(truncate)").execute(lane.conn()).await.unwrap();
    drop(lane);
    let copy = directory.path().join("copy.db");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].fill(0xee);
    std::fs::write(&copy, bytes).unwrap();
    let error = match Sqlite::open(&copy).unwrap().connect().await {
        Err(error) => error,
        Ok(mut lane) => lane.register("billing", None).await.unwrap_err(),
    };
    says(&error, Trouble::Other, "is damaged");
}

#[tokio::test]
async fn another_writer_is_an_outage() {
    let (shop, mut lane) = shop().await;
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    let mut second = shop.store.clone().busy_timeout(Duration::from_millis(20)).connect().await.unwrap();
    let error = begin(&mut second, shop.consumer, &[key("n")]).await.unwrap_err();
    says(&error, Trouble::Unreachable, "is locked: another program has held it for longer than 0.02 s");
    let source = error.source.as_deref().unwrap();
    assert_eq!(Sqlite::trouble(source), Trouble::Busy, "a handler's own waiting is no outage");
    lane.commit(&Writes::default()).await.unwrap();
}

#[tokio::test]
async fn a_full_disk() {
    let (shop, mut lane) = shop().await;
    begin(&mut lane, shop.consumer, &[key("m")]).await.unwrap();
    // What SQLite answers where the disk is full, too.
    sqlx::raw_sql("pragma max_page_count = 1").execute(lane.conn()).await.unwrap();
    let mut large = waiting("m");
    large.envelope.body = vec![7; 1 << 20];
    let error = write(&mut lane, Writes { waiting: vec![large], ..Writes::default() }).await.unwrap_err();
    // An outage: nothing of it is a message's fault.
    says(&error, Trouble::Unreachable, "there is no room left to write");
}

#[tokio::test]
async fn no_tables() {
    let directory = tempfile::tempdir().unwrap();
    let mut lane = Sqlite::open(directory.path().join("new.db")).unwrap().connect().await.unwrap();
    let consumer = semel_core::ConsumerNumber(1);
    says(&lane.check_schema().await.unwrap_err(), Trouble::Schema, "run `semel migrate`");
    says(&lane.register("billing", None).await.unwrap_err(), Trouble::Schema, "run `semel migrate`");
    says(&lane.look(consumer, &[key("m")]).await.unwrap_err(), Trouble::Schema, "run `semel migrate`");
    says(&begin(&mut lane, consumer, &[key("m")]).await.unwrap_err(), Trouble::Schema, "run `semel migrate`");
}

/// Another program has the file open in its old mode and is reading: the switch to WAL must wait, and says so when it cannot.
#[tokio::test]
async fn a_file_that_another_program_keeps_from_wal() {
    use sqlx::ConnectOptions;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("shop.db");
    let other = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut other = other.connect().await.unwrap();
    sqlx::raw_sql("create table t (v); insert into t values (1); begin; select * from t")
        .execute(&mut other)
        .await
        .unwrap();
    let impatient = Sqlite::open(&path).unwrap().busy_timeout(Duration::from_millis(50));
    says(&impatient.connect().await.err().unwrap(), Trouble::Unreachable, "is locked");

    let store = Sqlite::open(&path).unwrap().busy_timeout(PATIENCE);
    let mut connecting = tokio::spawn(async move { store.connect().await.map(drop) });
    assert!(tokio::time::timeout(Duration::from_millis(100), &mut connecting).await.is_err(), "it waits");
    sqlx::raw_sql("commit").execute(&mut other).await.unwrap();
    connecting.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_settings_of_a_lane() {
    let (_shop, mut lane) = shop().await;
    let mode: String = sqlx::query_scalar("pragma journal_mode").fetch_one(lane.conn()).await.unwrap();
    assert_eq!(mode, "wal");
    assert_eq!(number(&mut lane, "pragma synchronous").await, 2, "FULL");
    assert_eq!(number(&mut lane, "pragma foreign_keys").await, 1);
    assert_eq!(number(&mut lane, "pragma busy_timeout").await, 5000);
    let mut without = _shop.store.clone().foreign_keys(false).connect().await.unwrap();
    assert_eq!(number(&mut without, "pragma foreign_keys").await, 0);
}

/// For root every file is writable, so the look is taken by a process of somebody else.
#[cfg(unix)]
#[tokio::test]
async fn what_this_user_may_not_write() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    const THERE: &str = "SEMEL_TEST_READ_ONLY";

    if let Some(there) = std::env::var_os(THERE) {
        let there = Path::new(&there);
        says(
            &connect_error(&there.join("new.db")).await,
            Trouble::Other,
            "cannot be opened or created: give this user permission",
        );
        says(
            &connect_error(&there.join("secret.db")).await,
            Trouble::Other,
            "cannot be opened or created: give this user permission",
        );
        for readable in ["wal.db", "old.db", "read-only.db"] {
            let error = match Sqlite::open(there.join(readable)).unwrap().connect().await {
                Err(error) => error,
                Ok(mut lane) => begin(&mut lane, semel_core::ConsumerNumber(1), &[]).await.unwrap_err(),
            };
            assert_eq!(error.trouble, Trouble::Other, "{readable}: {error}");
            assert!(error.message.contains("permission for the file and for its directory"), "{readable}: {error}");
        }
        return;
    }

    let directory = tempfile::tempdir().unwrap();
    let there = directory.path();
    let set = |path: &Path, mode| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    for name in ["wal.db", "old.db", "secret.db", "read-only.db"] {
        let mut lane = Sqlite::open(there.join(name)).unwrap().connect().await.unwrap();
        lane.migrate(&[]).await.unwrap();
        sqlx::raw_sql(if name == "wal.db" { "select 1" } else { "pragma journal_mode = delete" })
            .execute(lane.conn())
            .await
            .unwrap();
        sqlx::Connection::ping(lane.conn()).await.unwrap();
        set(&there.join(name), if name == "secret.db" { 0o000 } else { 0o444 });
    }
    set(there, 0o555);
    let mut again = std::process::Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "what_this_user_may_not_write"]).env(THERE, there).current_dir("/");
    if std::fs::metadata(there).unwrap().uid() == 0 {
        again.uid(65534).gid(65534);
    }
    let output = tokio::task::spawn_blocking(move || again.output().unwrap()).await.unwrap();
    set(there, 0o755);
    assert!(
        output.status.success(),
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "it must have run");
}
