//! Which file, and how it is opened.

use crate::error::Place;
use crate::lane::SqliteLane;
use crate::{connect, error};
use semel_core::{Store, StoreError, Trouble};
use std::error::Error as StdError;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a transaction waits for other processes that are writing, unless [`Sqlite::busy_timeout`] says otherwise.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The store `semel::Sqlite`: handlers write `Tx<'_, Sqlite>` and are lent a [`sqlx::SqliteConnection`].
#[derive(Debug, Clone)]
pub struct Sqlite {
    pub(crate) place: Arc<Place>,
    pub(crate) foreign_keys: bool,
}

impl Sqlite {
    /// The database in the file `path`, which is created when the first connection is opened; its directory must exist by then.
    ///
    /// Nothing is opened yet. A relative path is taken from the current directory of now.
    ///
    /// # Errors
    /// An empty path, `:memory:` and `file:…` addresses are refused: claims must outlive the process that made them. So is a path that is
    /// not UTF-8, which SQLite cannot open.
    pub fn open(path: impl AsRef<Path>) -> Result<Sqlite, StoreError> {
        let path = connect::path(path.as_ref()).map_err(|sentence| StoreError::new(Trouble::Other, sentence))?;
        Ok(Sqlite { place: Arc::new(Place { path, busy_timeout: BUSY_TIMEOUT }), foreign_keys: true })
    }

    /// How long a transaction waits for other processes that are writing to the file before the store counts as unreachable; 5 seconds
    /// unless set, at most one hour.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        let busy_timeout = timeout.min(Duration::from_secs(3600));
        self.place = Arc::new(Place { path: self.place.path.clone(), busy_timeout });
        self
    }

    /// Whether `references` in your own tables are enforced; they are unless switched off.
    ///
    /// The `sqlite3` shell does not enforce them, sqlx and PostgreSQL do. A handler cannot change it: SQLite ignores
    /// `pragma foreign_keys` inside a transaction.
    pub fn foreign_keys(mut self, enforced: bool) -> Self {
        self.foreign_keys = enforced;
        self
    }

    /// The file, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.place.path
    }
}

impl Store for Sqlite {
    type Conn = sqlx::SqliteConnection;
    type Lane = SqliteLane;

    async fn connect(&self) -> Result<SqliteLane, StoreError> {
        connect::connect(self.place.clone(), connect::options(&self.place, self.foreign_keys)).await
    }

    /// One: SQLite has one writer, and a second connection would only poll for its turn.
    fn lanes_max(&self) -> usize {
        1
    }

    fn trouble(error: &(dyn StdError + 'static)) -> Trouble {
        error::trouble_of_handler(error)
    }
}
