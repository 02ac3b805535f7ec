#![cfg_attr(all(feature = "sqlite", feature = "file"), doc = include_str!("../../../README.md"))]
#![cfg_attr(
    not(all(feature = "sqlite", feature = "file")),
    doc = "Turns at-least-once delivery into effectively-once processing."
)]

pub use semel_core::*;

#[cfg(feature = "file")]
#[doc(inline)]
pub use semel_file as file;

#[cfg(feature = "postgres")]
#[doc(inline)]
pub use semel_postgres as postgres;
#[cfg(feature = "postgres")]
pub use semel_postgres::Postgres;

#[cfg(feature = "sqlite")]
#[doc(inline)]
pub use semel_sqlite as sqlite;
#[cfg(feature = "sqlite")]
pub use semel_sqlite::Sqlite;
