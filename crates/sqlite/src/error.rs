//! What SQLite's result codes mean for semel: the trouble by code (law 3), and one sentence that says what to do.

use semel_core::{StoreError, Trouble};
use sqlx::error::DatabaseError;
use sqlx::sqlite::SqliteError;
use std::error::Error as StdError;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

// Primary result codes: the low byte of the extended ones. https://www.sqlite.org/rescode.html
pub(crate) const ERROR: i32 = 1;
const PERM: i32 = 3;
pub(crate) const BUSY: i32 = 5;
const NOMEM: i32 = 7;
const READONLY: i32 = 8;
const INTERRUPT: i32 = 9;
const IOERR: i32 = 10;
const CORRUPT: i32 = 11;
const FULL: i32 = 13;
const CANTOPEN: i32 = 14;
const PROTOCOL: i32 = 15;
const TOOBIG: i32 = 18;
pub(crate) const CONSTRAINT: i32 = 19;
const MISMATCH: i32 = 20;
const AUTH: i32 = 23;
const NOTADB: i32 = 26;
// Extended ones.
const BUSY_SNAPSHOT: i32 = BUSY | 2 << 8;
const READONLY_MOVED: i32 = READONLY | 4 << 8;
pub(crate) const CONSTRAINT_FOREIGNKEY: i32 = CONSTRAINT | 3 << 8;

/// Where the database is, and what is known of it: for sentences.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) path: PathBuf,
    pub(crate) busy_timeout: Duration,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

impl Place {
    /// What the driver's error means. Its own text stays in the source: it may hold what somebody stored.
    pub(crate) fn error(&self, error: sqlx::Error) -> StoreError {
        let code = code(&error);
        let (trouble, message) = match (code, &error) {
            (Some(code), _) => (trouble(code), self.sentence(code)),
            (None, sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed) => {
                (Trouble::Unreachable, format!("the connection to {self} broke: semel opens it again"))
            }
            (None, sqlx::Error::Decode(_) | sqlx::Error::ColumnDecode { .. }) => {
                let what = "holds something in semel's tables that this program cannot read";
                (Trouble::Other, format!("{self} {what}: were they changed by hand?"))
            }
            (None, _) => {
                (Trouble::Other, format!("the connection to {self} cannot be used for this; please report it"))
            }
        };
        StoreError { trouble, message, source: Some(Box::new(error)) }
    }

    fn sentence(&self, code: i32) -> String {
        match code & 0xff {
            BUSY if code == BUSY_SNAPSHOT => {
                format!("{self} was changed by another program during a transaction: it is run again")
            }
            BUSY | PROTOCOL => format!(
                "{self} is locked: another program has held it for longer than {} s; wait for it, or stop it",
                self.busy_timeout.as_secs_f64()
            ),
            FULL => format!("there is no room left to write {self}: free some space on its disk, then go on"),
            READONLY if code == READONLY_MOVED => {
                format!("{self} was moved or replaced while it was open: start again")
            }
            READONLY | PERM | AUTH => {
                format!("{self} cannot be written: give this user write permission for the file and for its directory")
            }
            CANTOPEN => {
                let why = look(&self.path).err();
                why.unwrap_or_else(|| {
                    format!("{self} cannot be opened or created: give this user permission for the file and for its directory")
                })
            }
            NOTADB => format!("{self} is not an SQLite database, or it is encrypted: name another file"),
            CORRUPT => {
                format!("{self} is damaged: restore a backup, or save what is left with `sqlite3 {self} .recover`")
            }
            IOERR => format!("the disk does not read or write {self} (SQLite's code {code}): see the system's log"),
            NOMEM => format!("there is no memory left to work on {self}"),
            TOOBIG => "a value is larger than SQLite stores (1 GB)".to_owned(),
            INTERRUPT => "a statement ran over the time limit of its transaction and was stopped".to_owned(),
            _ => format!(
                "SQLite refused one of semel's own statements on {self} (its code {code}): were semel's tables changed by hand?"
            ),
        }
    }
}

/// Whether a file can be there at all: what SQLite calls CANTOPEN has several reasons.
pub(crate) fn look(path: &Path) -> Result<(), String> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    if path.is_dir() {
        return Err(format!("{} is a directory: name a file in it", path.display()));
    }
    let Some(directory) = path.parent() else { return Ok(()) };
    match std::fs::metadata(directory) {
        Ok(directory_or_file) if !directory_or_file.is_dir() => {
            Err(format!("{} is not a directory", directory.display()))
        }
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => {
            Err(format!("the directory {} does not exist: create it, or name another file", directory.display()))
        }
        _ => Ok(()),
    }
}

/// SQLite's extended result code, wherever in the chain it is.
pub(crate) fn code(error: &(dyn StdError + 'static)) -> Option<i32> {
    chain(error).find_map(|error| {
        let sqlite = error.downcast_ref::<SqliteError>().or_else(|| match error.downcast_ref::<sqlx::Error>() {
            Some(sqlx::Error::Database(error)) => error.try_downcast_ref::<SqliteError>(),
            _ => None,
        });
        sqlite.and_then(|error| error.code()).and_then(|code| code.parse().ok())
    })
}

/// BUSY of a handler is not an outage: the write lock is ours while it runs, so it waited on a connection of its own, perhaps for us.
pub(crate) fn trouble_of_handler(error: &(dyn StdError + 'static)) -> Trouble {
    if let Some(error) = chain(error).find_map(|error| error.downcast_ref::<StoreError>()) {
        return error.trouble;
    }
    match code(error) {
        Some(code) if code & 0xff == BUSY && code != BUSY_SNAPSHOT => Trouble::Busy,
        Some(code) => trouble(code),
        None if chain(error).any(|error| matches!(error.downcast_ref(), Some(sqlx::Error::WorkerCrashed))) => {
            Trouble::Unreachable
        }
        None => Trouble::Other,
    }
}

fn trouble(code: i32) -> Trouble {
    match code & 0xff {
        BUSY if code == BUSY_SNAPSHOT => Trouble::Rerun,
        // A full disk is an outage too: nothing of it is a message's fault.
        BUSY | PROTOCOL | IOERR | FULL => Trouble::Unreachable,
        _ => Trouble::Other,
    }
}

fn chain<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn StdError + 'static) = *error;
        error.source()
    })
}

/// Whether SQLite's own text tells an author what is wrong with their SQL; of a full disk or a lock our own sentences say more.
pub(crate) fn says_what_is_wrong(error: &sqlx::Error) -> bool {
    code(error).is_some_and(|code| matches!(code & 0xff, ERROR | CONSTRAINT | MISMATCH))
}
