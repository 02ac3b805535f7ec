//! The suite for stores.

mod batches;
mod cancellation;
mod check;
mod claims;
mod consumer;
mod cut;
mod dead_letters;
mod dice;
mod envelopes;
mod fixture;
mod floor;
mod identity;
mod inbox;
mod keys;
mod operate;
mod policies;
mod proof;
mod records;
mod replay;
mod reruns;
mod retention;
mod schema;
mod source;
mod stage;
mod twins;

pub use check::Check;
pub use fixture::{Conn, Differences, Fixture};

/// Every check, in the order in which [`run`] begins them.
pub fn checks<F: Fixture>() -> Vec<Check<F>> {
    [
        claims::checks(),
        twins::checks(),
        batches::checks(),
        identity::checks(),
        cancellation::checks(),
        proof::checks(),
        reruns::checks(),
        inbox::checks(),
        keys::checks(),
        envelopes::checks(),
        dead_letters::checks(),
        replay::checks(),
        operate::checks(),
        retention::checks(),
        floor::checks(),
        records::checks(),
        schema::checks(),
        consumer::checks(),
        policies::checks(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Runs every check, each on a database of its own, and panics at the end with all that failed: the name of each, what law it breaks, and how.
/// What passed is listed on stderr.
///
/// To be called on a runtime with several threads and with time and I/O, e.g. under `#[tokio::test(flavor = "multi_thread")]`.
pub async fn run<F: Fixture>(fixture: &F) {
    check::run_all(fixture, checks::<F>()).await;
}
