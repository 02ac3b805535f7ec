//! What the tests share: a file of their own, a lane on it, messages.
#![allow(dead_code, reason = "each test program uses its own part")]

use semel_core::{
    Claim, ClaimKey, ClaimWait, Claimed, Claims, ConsumerNumber, DeadLetter, Envelope, Fingerprint, Lane, Reason,
    Records, Setup, Store, StoreError, Timestamp, Waiting, Writes, Written,
};
use semel_sqlite::{Sqlite, SqliteLane};
use sqlx::SqliteConnection;
use std::time::Duration;
use tempfile::TempDir;

/// Long enough for a slow machine; nothing waits for it when all is well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A database of its own with the table `effects(v text)`, and one consumer.
pub(crate) struct Shop {
    pub(crate) directory: TempDir,
    pub(crate) store: Sqlite,
    pub(crate) consumer: ConsumerNumber,
}

pub(crate) async fn shop() -> (Shop, SqliteLane) {
    let directory = tempfile::tempdir().unwrap();
    let store = Sqlite::open(directory.path().join("shop.db")).unwrap();
    let mut lane = store.connect().await.unwrap();
    lane.migrate(&[setup("effects.sql", "create table effects (v text)")]).await.unwrap();
    let consumer = lane.register("billing", None).await.unwrap();
    (Shop { directory, store, consumer }, lane)
}

pub(crate) fn setup(name: &str, sql: &str) -> Setup {
    Setup { name: name.to_owned(), sql: sql.to_owned() }
}

impl Shop {
    pub(crate) async fn lane(&self) -> SqliteLane {
        self.store.connect().await.unwrap()
    }

    /// Claims, commits, and answers the verdicts.
    pub(crate) async fn claim(&self, lane: &mut SqliteLane, keys: &[ClaimKey<'_>]) -> Vec<Claim> {
        let claimed = begin(lane, self.consumer, keys).await.unwrap();
        lane.commit(&Writes::default()).await.unwrap();
        claimed.claims
    }

    /// Claims the message, and leaves it in the inbox.
    pub(crate) async fn wait(&self, lane: &mut SqliteLane, waiting: Waiting) {
        let key = ClaimKey { fingerprint: waiting.fingerprint, ..key(&waiting.id) };
        assert_eq!(begin(lane, self.consumer, &[key]).await.unwrap().claims, [Claim::Fresh]);
        write(lane, Writes { waiting: vec![waiting], ..Writes::default() }).await.unwrap();
    }

    /// Writes a dead letter, with its claim where the reason has one, and answers its number.
    pub(crate) async fn bury(&self, lane: &mut SqliteLane, letter: DeadLetter) -> i64 {
        let id = letter.id.clone().unwrap_or_default();
        let key = ClaimKey { fingerprint: letter.fingerprint, ..key(&id) };
        let keys: &[ClaimKey<'_>] = if letter.reason.claims() { &[key] } else { &[] };
        begin(lane, self.consumer, keys).await.unwrap();
        let reference = letter.reference().to_owned();
        let reason = letter.reason;
        write(lane, Writes { dead: vec![letter], ..Writes::default() }).await.unwrap();
        let filter = semel_core::DeadFilter { reference: Some(reference), reason: Some(reason), ..Default::default() };
        lane.dead_letters(&filter, 0, 1000).await.unwrap().last().unwrap().number
    }
}

pub(crate) fn key(id: &str) -> ClaimKey<'_> {
    ClaimKey { id, fingerprint: print(1), time: None, waiting: None }
}

pub(crate) fn print(digest: u8) -> Fingerprint {
    Fingerprint { version: 1, digest: [digest; 16] }
}

pub(crate) fn claims<'a>(consumer: ConsumerNumber, keys: &'a [ClaimKey<'a>]) -> Claims<'a> {
    Claims { consumer, keys, wait: ClaimWait::Claim(Duration::from_secs(5)), time_limit: Duration::from_secs(600) }
}

pub(crate) async fn begin(
    lane: &mut SqliteLane,
    consumer: ConsumerNumber,
    keys: &[ClaimKey<'_>],
) -> Result<Claimed, StoreError> {
    lane.begin(&claims(consumer, keys)).await
}

pub(crate) async fn write(lane: &mut SqliteLane, writes: Writes) -> Result<Written, StoreError> {
    lane.commit(&writes).await
}

pub(crate) async fn effect(conn: &mut SqliteConnection, v: &str) -> sqlx::Result<()> {
    sqlx::query("insert into effects values (?1)").bind(v).execute(conn).await.map(drop)
}

/// All effects, seen by a connection of its own.
pub(crate) async fn effects(shop: &Shop) -> Vec<String> {
    let mut lane = shop.lane().await;
    sqlx::query_scalar("select v from effects order by rowid").fetch_all(lane.conn()).await.unwrap()
}

pub(crate) async fn number(lane: &mut SqliteLane, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(lane.conn()).await.unwrap()
}

pub(crate) fn waiting(id: &str) -> Waiting {
    Waiting {
        id: id.to_owned(),
        kind: "payment.requested".to_owned(),
        key: None,
        time: None,
        fingerprint: print(1),
        attempts: 1,
        holds: false,
        delay: Duration::ZERO,
        error: "declined".to_owned(),
        instance: "me".to_owned(),
        envelope: Envelope::new(id, "{}"),
    }
}

pub(crate) fn letter(reason: Reason, id: Option<&str>, digest: u8) -> DeadLetter {
    DeadLetter {
        reason,
        id: id.map(str::to_owned),
        kind: "payment.requested".to_owned(),
        key: Some("account".to_owned()),
        time: Some(Timestamp::from_millis(1_700_000_000_123)),
        fingerprint: print(digest),
        error: "what a person should know".to_owned(),
        attempts: 4,
        envelope: Envelope { coordinates: Some("payments.jsonl:17".to_owned()), ..Envelope::default() },
    }
}

/// Everything that an envelope can hold.
pub(crate) fn strange_envelope() -> Envelope {
    let text = "\0a\u{1}\"\\\u{fffd}é😀\u{2028} \n'";
    let some = || Some(text.to_owned());
    Envelope {
        id: some(),
        kind: some(),
        key: some(),
        time: Some(Timestamp::from_millis(-1)),
        correlation_id: some(),
        causation_id: Some(String::new()),
        content_type: some(),
        headers: vec![
            (text.to_owned(), text.to_owned()),
            ("a".to_owned(), String::new()),
            ("a".to_owned(), "2".to_owned()),
        ],
        body: (0..=255).collect(),
        cut: Some(semel_core::Cut { length: u64::from(u32::MAX) * 3, digest: [9; 16] }),
        coordinates: some(),
    }
}
