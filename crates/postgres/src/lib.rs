//! The PostgreSQL store of semel: claims in the same transaction as the work.
//!
//! [`Postgres`] describes a database; core opens its lanes, one connection each. The tables lie in the schema `semel`
//! ([`SCHEMA`] has them as SQL), together with the SQL contract, two functions for programs in any language:
//!
//! ```sql
//! select semel.register('billing');                -- once, outside the work's transaction
//!
//! begin;
//! select semel.claim('billing', '0198c0de-…');     -- fresh: do the work · duplicate: it was done · conflict, stale: set it aside
//! insert into invoice …;
//! commit;                                          -- then acknowledge
//! ```
//!
//! A twin that is still running is waited for, at most 5 s; then the call fails with the SQLSTATE 55P03. A consumer
//! that is not registered, and an id that is null, empty or longer than 255 bytes, are errors. An optional third
//! argument, any bytes, tells a repeat from another message with the same id. Outside a transaction block the claim
//! would commit before the work: `semel.claim` warns where it can tell, which is only where a client sends nothing but
//! the call, as a simple query; with the extended protocol PostgreSQL does not show the difference.
//!
//! Roles other than the owner need `grant usage on schema semel`, and either execute on the two functions or, for
//! programs on this crate, select, insert, update and delete on all tables of the schema.

mod address;
mod convert;
mod envelope;
mod error;
pub mod handler;
mod lane;
mod look;
mod records;
mod schema;
mod session;
mod statements;
mod store;
mod transaction;
mod writes;

pub use handler::SqlHandler;
pub use lane::PostgresLane;
pub use schema::SCHEMA;
pub use store::Postgres;
