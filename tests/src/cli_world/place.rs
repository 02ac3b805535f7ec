//! Where a message is: the invariant that every test checks.

use super::World;

/// A message is in exactly one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// The store knows nothing of it.
    Nowhere,
    /// Its claim stands alone.
    Done,
    /// Its claim stands, and the message waits.
    Waiting,
    /// Its claim stands beside a dead letter of its own, with this reason.
    Dead(String),
}

/// A dead letter as its table has it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Letter {
    /// Why.
    pub reason: String,
    /// The message id, else the place in the source.
    pub reference: String,
    /// How often it came.
    pub seen: u64,
    /// How often it was tried.
    pub attempts: u64,
}

impl Letter {
    /// One that came once and was never tried.
    pub fn new(reason: &str, reference: &str) -> Self {
        Self { reason: reason.into(), reference: reference.into(), seen: 1, attempts: 0 }
    }

    /// One that came this often.
    #[must_use]
    pub fn seen(self, seen: u64) -> Self {
        Self { seen, ..self }
    }

    /// One that was tried this often.
    #[must_use]
    pub fn tried(self, attempts: u64) -> Self {
        Self { attempts, ..self }
    }
}

/// The reasons whose letters stand beside a claim.
const CLAIMING: &str = "('no-handler', 'rejected', 'failed', 'crashed')";

impl World {
    /// Where the message with this id is, for the consumer `work`.
    ///
    /// # Panics
    ///
    /// If it is in two places, or in one that needs a claim without one.
    pub async fn place(&self, id: &str) -> Place {
        let id = id.replace('\'', "''");
        let of = |table: &str| {
            format!(
                "{table} t where t.message_id = '{id}' and t.consumer = (select number from semel.consumer where name = 'work')"
            )
        };
        let store = self.store();
        let claims = store.count(&format!("select count(*) from {}", of("semel.claim"))).await;
        let waiting = store.count(&format!("select count(*) from {}", of("semel.inbox"))).await;
        let dead =
            store.rows(&format!("select reason from {} and reason in {CLAIMING}", of("semel.dead_letter"))).await;
        match (claims, waiting, &*dead) {
            (0, 0, []) => Place::Nowhere,
            (1, 0, []) => Place::Done,
            (1, 1, []) => Place::Waiting,
            (1, 0, [reason]) => Place::Dead(reason.clone()),
            found => panic!("{id}: not in exactly one place: (claims, waiting, dead) = {found:?}"),
        }
    }

    /// Panics where some message is in two places, or waits or is dead without its claim, or where a run that has
    /// ended left a trace of itself.
    pub async fn check_places(&self) {
        for (what, sql) in [
            ("waits without a claim", no_claim("semel.inbox t where true")),
            ("is dead without a claim", no_claim(&format!("semel.dead_letter t where t.reason in {CLAIMING}"))),
            (
                "waits and is dead",
                format!(
                    "select t.message_id from semel.dead_letter t join semel.inbox i \
                     on i.consumer = t.consumer and i.message_id = t.message_id where t.reason in {CLAIMING}"
                ),
            ),
            ("has an open attempt", "select message_id from semel.attempt".into()),
            ("is an instance that did not leave", "select id from semel.instance".into()),
        ] {
            assert_eq!(self.store().rows(&sql).await, [""; 0], "{what}");
        }
    }

    /// The dead letters, sorted.
    pub async fn letters(&self) -> Vec<Letter> {
        let rows = self.store().rows("select reason, seen, attempts, reference from semel.dead_letter").await;
        let letter = |row: &String| {
            let mut parts = row.splitn(4, '|');
            let mut next = || parts.next().expect("four columns").to_owned();
            let (reason, seen, attempts, reference) = (next(), next(), next(), next());
            Letter {
                reason,
                reference,
                seen: seen.parse().expect("a number"),
                attempts: attempts.parse().expect("a number"),
            }
        };
        let mut letters: Vec<Letter> = rows.iter().map(letter).collect();
        letters.sort();
        letters
    }

    /// What the handlers did, in order.
    pub async fn effects(&self) -> Vec<String> {
        self.store().rows("select id from effect order by seq").await
    }

    /// What the handlers did, sorted: where lanes work side by side, their order means nothing.
    pub async fn effects_sorted(&self) -> Vec<String> {
        let mut effects = self.effects().await;
        effects.sort();
        effects
    }

    /// How far the file was read, by the position that the store keeps: 0 where there is none.
    pub async fn offset(&self) -> u64 {
        let rows = self.store().rows("select position from semel.position").await;
        assert!(rows.len() <= 1, "one source: {rows:?}");
        let Some(text) = rows.first() else { return 0 };
        let position: serde_json::Value = serde_json::from_str(text).expect("a position is JSON");
        position["offset"].as_u64().expect("an offset")
    }
}

fn no_claim(from: &str) -> String {
    format!(
        "select t.message_id from {from} and not exists \
         (select 1 from semel.claim c where c.consumer = t.consumer and c.message_id = t.message_id)"
    )
}
