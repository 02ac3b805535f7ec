//! Which store: one place that knows them all.

use crate::config::{StoreAddress, StoreKind};
use crate::error::CliError;
use semel::{HandlerResult, Semel, Store, StoreError};
use std::future::Future;

/// A store that runs the author's SQL.
pub(crate) trait SqlStore: Store {
    /// The statements of one handler.
    type Statements: Send + Sync + 'static;

    const KIND: StoreKind;

    fn statements(texts: Vec<String>) -> Self::Statements;

    /// Runs them over a batch (a JSON array of messages).
    fn run(
        statements: &Self::Statements,
        conn: &mut Self::Conn,
        batch: &str,
    ) -> impl Future<Output = HandlerResult> + Send;

    /// Lets the database parse them.
    fn check(&self, statements: &Self::Statements) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// How many connections the server still has for this program; `None`: as many as it wants.
    fn capacity(&self) -> impl Future<Output = Result<Option<usize>, StoreError>> + Send;

    /// The store with room for this many lanes.
    fn with_lanes(self, lanes: usize) -> Self;
}

/// Something to do on whatever store the configuration names.
pub(crate) trait OnStore {
    fn run<S: SqlStore>(self, semel: Semel<S>) -> impl Future<Output = Result<(), CliError>>;
}

/// Whether a verb may make the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Make,
    Existing,
}

/// Opens the store and does it. `lanes`: how many connections may be used at once.
pub(crate) async fn on_store(
    address: &StoreAddress,
    lanes: usize,
    access: Access,
    verb: impl OnStore,
) -> Result<(), CliError> {
    match address {
        // SQLite would make the file.
        StoreAddress::Sqlite(path) if access == Access::Existing && !path.exists() => Err(CliError::Failed(format!(
            "there is no database at {} yet; `semel run` and `semel migrate` make it",
            path.display()
        ))),
        #[cfg(feature = "sqlite")]
        StoreAddress::Sqlite(path) => {
            verb.run(Semel::new(semel::Sqlite::open(path).map_err(wrong)?.with_lanes(lanes))).await
        }
        #[cfg(feature = "postgres")]
        StoreAddress::Postgres(url) => {
            verb.run(Semel::new(semel::Postgres::new(url).map_err(wrong)?.with_lanes(lanes))).await
        }
        #[allow(unreachable_patterns, reason = "reached in builds without all stores")]
        _ => Err(CliError::Use("this program was built without that store".to_owned())),
    }
}

/// An address that is wrong in itself, before anything was opened.
fn wrong(error: StoreError) -> CliError {
    CliError::Use(error.to_string())
}

#[cfg(feature = "sqlite")]
mod sqlite {
    use super::*;
    use semel::Sqlite;
    use semel::sqlite::handler::SqlHandler;

    impl SqlStore for Sqlite {
        type Statements = SqlHandler;
        const KIND: StoreKind = StoreKind::Sqlite;

        fn statements(texts: Vec<String>) -> SqlHandler {
            SqlHandler::new(texts)
        }
        async fn run(statements: &SqlHandler, conn: &mut Self::Conn, batch: &str) -> HandlerResult {
            let ran = statements.run(conn, batch).await;
            match ran.as_ref().err().and_then(|error| error.as_database_error()?.code()) {
                // SQLITE_CONSTRAINT_COMMITHOOK: `check` cannot see it, and SQLite's own text does not tell.
                Some(code) if code == "531" => Err(semel::HandlerError::from_boxed(
                    "the SQL ends the transaction itself (COMMIT), which was refused: take it out, semel commits",
                )),
                _ => Ok(ran?),
            }
        }
        async fn check(&self, statements: &SqlHandler) -> Result<(), StoreError> {
            use semel::Lane;
            let mut lane = self.connect().await?;
            statements.check(lane.conn()).await
        }
        async fn capacity(&self) -> Result<Option<usize>, StoreError> {
            Ok(None)
        }
        fn with_lanes(self, _lanes: usize) -> Self {
            self
        }
    }
}

#[cfg(feature = "postgres")]
mod postgres {
    use super::*;
    use semel::Postgres;
    use semel::postgres::handler::SqlHandler;

    impl SqlStore for Postgres {
        type Statements = SqlHandler;
        const KIND: StoreKind = StoreKind::Postgres;

        fn statements(texts: Vec<String>) -> SqlHandler {
            SqlHandler::new(texts, false)
        }
        async fn run(statements: &SqlHandler, conn: &mut Self::Conn, batch: &str) -> HandlerResult {
            Ok(statements.run(conn, batch).await?)
        }
        async fn check(&self, statements: &SqlHandler) -> Result<(), StoreError> {
            use semel::Lane;
            let mut lane = self.connect().await?;
            statements.check(lane.conn()).await
        }
        async fn capacity(&self) -> Result<Option<usize>, StoreError> {
            Postgres::capacity(self).await.map(Some)
        }
        fn with_lanes(self, lanes: usize) -> Self {
            self.lanes_max(lanes)
        }
    }
}
