//! The store itself: a description of a database that can be connected as often as needed.

use crate::address::Address;
use crate::error::{self, store_error};
use crate::lane::PostgresLane;
use crate::session::{self, Hello};
use semel_core::{Store, StoreError, Trouble};
use sqlx::Connection;
use sqlx::postgres::PgConnection;
use std::error::Error as StdError;

/// A PostgreSQL database as semel's store, version 13 or later, with the encoding UTF8.
///
/// Handlers write `Tx<'_, Postgres>` and are lent a `sqlx::PgConnection`. Everything of semel's lies in the schema
/// `semel`.
///
/// Behind a pooler in transaction mode: every lock and setting that counts belongs to a transaction, but prepared
/// statements must be followed by the pooler (PgBouncer 1.21 and later), and a lane that is dropped while it waits for
/// a lock is noticed late. This was thought through, not tried.
#[derive(Debug, Clone)]
pub struct Postgres {
    address: Address,
    lanes_max: usize,
}

impl Postgres {
    /// The database at `url`: `postgres://USER:PASSWORD@HOST:PORT/DATABASE?…`. Reads the URL and connects to nothing.
    ///
    /// The parameters are libpq's (`sslmode`, `application_name`, `options`, `connect_timeout` in seconds, 10 by
    /// default …); what the URL does not say is taken from the environment (`PGHOST`, `PGUSER`, `PGPASSWORD`,
    /// `PGPASSFILE` …). `application_name` is "semel" unless given.
    ///
    /// # Errors
    /// When the URL cannot be read, has a parameter that is not known, or asks for TLS and this build has none. No
    /// error holds the password.
    pub fn new(url: &str) -> Result<Postgres, StoreError> {
        Ok(Postgres { address: Address::parse(url)?, lanes_max: 16 })
    }

    /// How many connections may be open at once, at least 1; 16 by default. See [`Postgres::capacity`].
    pub fn lanes_max(mut self, lanes: usize) -> Self {
        self.lanes_max = lanes.max(1);
        self
    }

    /// How many connections the server has left for this role on this database at this moment: `max_connections`, less
    /// what is reserved and what is in use, and within the limits of the role and the database. Opens one connection,
    /// and closes it again.
    ///
    /// Other programs may take them at any time; behind a pooler the numbers are the server's, not the pooler's.
    ///
    /// # Errors
    /// As [`Store::connect`].
    pub async fn capacity(&self) -> Result<usize, StoreError> {
        let (mut conn, _) = self.open().await?;
        let asked = sqlx::query_scalar(include_str!("../sql/capacity.sql")).fetch_one(&mut conn).await;
        let left: i64 = asked.map_err(|error| store_error("count its connections", error))?;
        // A goodbye that fails changes nothing.
        conn.close().await.ok();
        Ok(usize::try_from(left).unwrap_or(0))
    }

    /// A connection, and what it said of itself.
    async fn open(&self) -> Result<(PgConnection, Hello), StoreError> {
        let opened = async {
            let mut conn = PgConnection::connect_with(&self.address.options).await?;
            let hello = Hello::ask(&mut conn).await?;
            Ok((conn, hello))
        };
        let (conn, hello) = match tokio::time::timeout(self.address.connect_timeout, opened).await {
            Ok(opened) => opened.map_err(|error| store_error(&format!("connect ({})", self.address), error))?,
            Err(_) => {
                let limit = self.address.connect_timeout.as_secs();
                return Err(StoreError::new(
                    Trouble::Unreachable,
                    format!(
                        "PostgreSQL did not answer within {limit} s ({}): check host and port, and what lies between",
                        self.address
                    ),
                ));
            }
        };
        hello.check()?;
        Ok((conn, hello))
    }
}

impl Store for Postgres {
    type Conn = PgConnection;
    type Lane = PostgresLane;

    async fn connect(&self) -> Result<PostgresLane, StoreError> {
        let (mut conn, hello) = self.open().await?;
        session::settle(&mut conn).await?;
        Ok(PostgresLane::new(conn, hello))
    }

    fn lanes_max(&self) -> usize {
        self.lanes_max
    }

    fn trouble(error: &(dyn StdError + 'static)) -> Trouble {
        error::trouble_in(error)
    }
}
