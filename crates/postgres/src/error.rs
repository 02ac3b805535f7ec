//! What PostgreSQL's errors mean: told by their code (SQLSTATE), never by their text, which is translated (law 3).

use semel_core::{StoreError, Trouble};
use sqlx::postgres::{PgDatabaseError, PgErrorPosition};
use std::error::Error as StdError;

/// The driver's error somewhere in the chain of causes, where a handler may have wrapped it.
pub(crate) fn trouble_in(error: &(dyn StdError + 'static)) -> Trouble {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<StoreError>() {
            return error.trouble;
        }
        if let Some(error) = error.downcast_ref::<sqlx::Error>() {
            return Fault::of(error).trouble(Whose::Handler);
        }
        next = error.source();
    }
    Trouble::Other
}

/// An error of one of semel's own statements. `doing` completes "PostgreSQL failed to …".
pub(crate) fn store_error(doing: &str, error: sqlx::Error) -> StoreError {
    let fault = Fault::of(&error);
    let message = match fault {
        Fault::Missing => "semel's tables are missing or incomplete in this database: run `semel migrate`".to_owned(),
        _ => format!("PostgreSQL failed to {doing}: {}", fault.sentence(&error)),
    };
    StoreError { trouble: fault.trouble(Whose::Semel), message, source: Some(Box::new(error)) }
}

/// The code of a database's error.
pub(crate) fn code(error: &sqlx::Error) -> Option<&str> {
    database_error(error).map(PgDatabaseError::code)
}

/// PostgreSQL's own words for an error in somebody's SQL text, with the line. For errors of preparing or of setup
/// files, never for messages.
pub(crate) fn words(error: &sqlx::Error, sql: &str) -> String {
    let Some(error) = database_error(error) else { return error.to_string() };
    let line = match error.position() {
        Some(PgErrorPosition::Original(place)) => format!("line {}: ", line_of(sql, place)),
        _ => String::new(),
    };
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    format!("{line}{}{hint}", error.message())
}

/// The line of a position in characters, both counted from 1.
fn line_of(sql: &str, place: usize) -> usize {
    1 + sql.chars().take(place.saturating_sub(1)).filter(|c| *c == '\n').count()
}

fn database_error(error: &sqlx::Error) -> Option<&PgDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Semel,
    Handler,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Unreachable,
    Ended,
    Full,
    Rerun,
    Busy,
    Missing,
    Disk,
    ReadOnly,
    Permission,
    Aborted,
    Canceled,
    Idle,
    Password,
    NoDatabase,
    Tls,
    Foreign,
    Code,
    Other,
}

impl Fault {
    fn of(error: &sqlx::Error) -> Fault {
        match error {
            sqlx::Error::Io(_) => return Fault::Unreachable,
            sqlx::Error::Tls(_) => return Fault::Tls,
            sqlx::Error::Protocol(_) => return Fault::Foreign,
            _ => {}
        }
        let Some(code) = code(error) else { return Fault::Other };
        match code {
            "40001" | "40P01" => Fault::Rerun,
            "55P03" => Fault::Busy,
            "57P01" | "57P02" | "57P03" | "57P05" => Fault::Ended,
            "53300" => Fault::Full,
            "42P01" | "3F000" | "42703" | "42883" => Fault::Missing,
            "53100" => Fault::Disk,
            "25006" => Fault::ReadOnly,
            "42501" => Fault::Permission,
            "25P02" => Fault::Aborted,
            "57014" => Fault::Canceled,
            "25P03" => Fault::Idle,
            "28P01" | "28000" => Fault::Password,
            "3D000" => Fault::NoDatabase,
            _ if code.starts_with("08") => Fault::Unreachable,
            _ => Fault::Code,
        }
    }

    fn trouble(self, whose: Whose) -> Trouble {
        match self {
            Fault::Unreachable | Fault::Ended | Fault::Full => Trouble::Unreachable,
            Fault::Rerun => Trouble::Rerun,
            Fault::Busy => Trouble::Busy,
            // A handler's own missing table is its own fault; semel's statements name nothing but semel's tables.
            Fault::Missing if whose == Whose::Semel => Trouble::Schema,
            // Nothing of a full disk is a message's fault.
            Fault::Disk if whose == Whose::Semel => Trouble::Unreachable,
            _ => Trouble::Other,
        }
    }

    /// What happened, and what to do next. The driver's text stands in it only where it can hold no value of a message.
    fn sentence(self, error: &sqlx::Error) -> String {
        let said = match (database_error(error), error) {
            (Some(error), _) => error.message().to_owned(),
            (None, sqlx::Error::Io(error)) => error.to_string(),
            (None, error) => error.to_string(),
        };
        match self {
            Fault::Unreachable => format!("the connection failed ({said}); check that it runs and can be reached"),
            Fault::Ended => {
                format!("it ended the connection ({said}); it is stopping, starting, or somebody ended the connection")
            }
            Fault::Full => {
                format!(
                    "it has no connection left ({said}); use fewer lanes, or raise the limit of the server, role or database"
                )
            }
            Fault::Rerun => "it met a deadlock or a serialization failure; the transaction can be run again".into(),
            Fault::Busy => "another transaction held a lock for too long; try again".into(),
            Fault::Missing => format!("a table, column or function is missing ({said})"),
            Fault::Disk => format!("its disk is full ({said}); make room, then start again"),
            Fault::ReadOnly => {
                format!("it takes no writes ({said}); connect to the primary, or end default_transaction_read_only")
            }
            Fault::Permission => format!("the role may not do this ({said}); grant it what semel's schema asks for"),
            Fault::Aborted => "the transaction had already failed".into(),
            Fault::Canceled => "the statement ran over its time limit, or somebody cancelled it".into(),
            Fault::Idle => {
                "the transaction stood idle for longer than its time limit, and the server ended the session".into()
            }
            Fault::Password => format!("it refused the user name or password ({said}); correct the store's URL"),
            Fault::NoDatabase => format!("there is no such database ({said}); create it, or correct the store's URL"),
            Fault::Tls => {
                format!(
                    "no TLS connection came about ({said}); use a build with TLS, or sslmode=disable where the network is trusted"
                )
            }
            Fault::Foreign => {
                "what answered did not speak PostgreSQL's protocol; check host and port of the store's URL".into()
            }
            Fault::Code => format!(
                "it answered with the error {}; what it said is in the error's source, for it may hold values",
                code(error).unwrap_or_default()
            ),
            Fault::Other => "the driver failed; what it said is in the error's source".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Debug)]
    struct Wrapped(sqlx::Error);
    impl std::fmt::Display for Wrapped {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("wrapped")
        }
    }
    impl StdError for Wrapped {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn finds_the_driver_in_the_chain_and_nothing_else() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(trouble_in(&Wrapped(sqlx::Error::Io(refused()))), Trouble::Unreachable);
        assert_eq!(
            trouble_in(&refused()),
            Trouble::Other,
            "a handler's own connection to elsewhere is no outage of the store"
        );
        assert_eq!(trouble_in(&StoreError::new(Trouble::Schema, "x")), Trouble::Schema);
    }

    #[test]
    fn counts_lines() {
        assert_eq!(line_of("a\nü\nc", 5), 3);
        assert_eq!(line_of("a", 1), 1);
        assert_eq!(line_of("", 0), 1);
    }
}
