//! The suites that every semel store must pass, to be run by the store's own tests.
//!
//! A store is written against the traits of `semel-core`, which say in words what must be true. Here the same is said in checks: each runs on a
//! fresh database, breaks something on purpose (drops futures, panics, races, deadlocks, sends its own `COMMIT`), and counts effects with a
//! connection of its own. A store that passes keeps the promise: *the changes of a handler are applied at most once for every message, and
//! exactly once for every message that ends as processed*.
//!
//! ```ignore
//! #[tokio::test(flavor = "multi_thread")]
//! async fn passes_the_contract() {
//!     semel_contracts::store::run(&MyFixture).await;
//! }
//! ```
//!
//! What a store's author writes is a [`store::Fixture`]. `SEMEL_CONTRACT=inbox/` in the environment runs only the checks whose name has that
//! text; `SEMEL_SEED=…` repeats what a failed check of chance printed.

pub mod store;
