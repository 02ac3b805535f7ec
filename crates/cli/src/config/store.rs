//! The address of the store.

use std::fmt;
use std::path::{Path, PathBuf};

use super::redact::redact;

/// The kinds of store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreKind {
    /// An SQLite file.
    Sqlite,
    /// A PostgreSQL database.
    Postgres,
    /// A MySQL or MariaDB database.
    Mysql,
}

impl StoreKind {
    /// The word in the names of SQL files (`schema.postgres.sql`) and of the features: `sqlite`, `postgres`, `mysql`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sqlite => "sqlite",
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
        }
    }
}

/// Where the store is. `Display` and `Debug` hide a password, wherever in the address it stands.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum StoreAddress {
    /// The path of an SQLite file.
    Sqlite(PathBuf),
    /// A URL that begins with `postgres://` or `postgresql://`.
    Postgres(String),
    /// A URL that begins with `mysql://` or `mariadb://`.
    Mysql(String),
}

impl StoreAddress {
    /// Reads `sqlite:PATH`, `postgres://…` or `mysql://…`. `base` is the directory that a relative PATH belongs to: the
    /// file's own for an address in the file, `""` (the working directory) for `--store` and `SEMEL_STORE`.
    ///
    /// The error does not hold the address.
    pub(crate) fn parse(text: &str, base: &Path) -> Result<Self, StoreAddressError> {
        let scheme_end = text.find(':').unwrap_or(0);
        let scheme = text[..scheme_end].to_ascii_lowercase();
        let is_url = text[scheme_end..].starts_with("://");
        match scheme.as_str() {
            _ if text.trim() != text || text.contains(char::is_control) => {
                Err("the address has blanks at an end or control characters in it".into())
            }
            "sqlite" => sqlite_path(&text[scheme_end + 1..]).map(|path| Self::Sqlite(base.join(path))),
            "postgres" | "postgresql" if is_url => Ok(Self::Postgres(text.into())),
            "mysql" | "mariadb" if is_url => Ok(Self::Mysql(text.into())),
            _ => {
                Err("expected the address of a store: \"sqlite:PATH\", \"postgres://USER:PASSWORD@HOST/DATABASE\" or \
                      \"mysql://USER:PASSWORD@HOST/DATABASE\""
                    .into())
            }
        }
        .map_err(StoreAddressError)
    }

    /// Which kind of store it is.
    pub(crate) fn kind(&self) -> StoreKind {
        match self {
            Self::Sqlite(_) => StoreKind::Sqlite,
            Self::Postgres(_) => StoreKind::Postgres,
            Self::Mysql(_) => StoreKind::Mysql,
        }
    }
}

fn sqlite_path(written: &str) -> Result<&str, String> {
    // Others write `sqlite://PATH`, with three slashes for an absolute one.
    let path = written.strip_prefix("//").unwrap_or(written);
    if path.is_empty() {
        return Err("after \"sqlite:\" comes the path of a file, such as \"sqlite:app.db\"; a database \
                    without a file is deleted when its connection closes, and the claims with it"
            .into());
    }
    if path.contains(":memory:") || path.contains("mode=memory") {
        return Err("a database in memory dies with its connection, and every claim with it; \
                    use a file, such as \"sqlite:app.db\""
            .into());
    }
    if path.starts_with("file:") || path.contains('?') {
        return Err(
            "after \"sqlite:\" comes a plain path, without \"file:\" and without parameters, such as \"sqlite:app.db\""
                .into(),
        );
    }
    Ok(path)
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) | Self::Mysql(url) => f.write_str(&redact(url)),
        }
    }
}

impl fmt::Debug for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreAddress({self})")
    }
}

/// Why a text is no address of a store. It does not hold the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StoreAddressError(String);

impl fmt::Display for StoreAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoreAddressError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<StoreAddress, StoreAddressError> {
        StoreAddress::parse(text, Path::new("conf"))
    }

    #[test]
    fn addresses_are_read_and_paths_belong_to_their_base() {
        for (text, path) in [
            ("sqlite:app.db", "conf/app.db"),
            ("sqlite:../app.db", "conf/../app.db"),
            ("sqlite:/var/app.db", "/var/app.db"),
            ("sqlite://app.db", "conf/app.db"),
            ("sqlite:///var/app.db", "/var/app.db"),
        ] {
            assert_eq!(parse(text), Ok(StoreAddress::Sqlite(path.into())), "{text}");
        }
        assert_eq!(StoreAddress::parse("sqlite:app.db", Path::new("")), Ok(StoreAddress::Sqlite("app.db".into())));
        for (text, kind) in [
            ("postgres://db/shop", StoreKind::Postgres),
            ("PostgreSQL://db/shop", StoreKind::Postgres),
            ("mysql://db/shop", StoreKind::Mysql),
            ("mariadb://db/shop", StoreKind::Mysql),
        ] {
            assert_eq!(parse(text).map(|address| address.kind()), Ok(kind), "{text}");
        }
    }

    #[test]
    fn what_is_no_durable_store_is_refused_without_being_repeated() {
        for (text, why) in [
            ("", "expected the address"),
            ("hunter2.db", "expected the address"),
            ("postgres:hunter2", "expected the address"),
            ("redis://hunter2", "expected the address"),
            ("sqlite:", "path of a file"),
            ("sqlite://", "path of a file"),
            ("sqlite::memory:", "in memory"),
            ("sqlite://:memory:", "in memory"),
            ("sqlite:file:hunter2?mode=memory", "in memory"),
            ("sqlite:hunter2.db?mode=ro", "plain path"),
            (" sqlite:hunter2.db", "blanks"),
            ("sqlite:hunter2\0", "control"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("hunter2"), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_store_shows_no_password() {
        let address = parse("postgres://me:hunter2@db/shop?password=hunter2").unwrap();
        assert_eq!(address.to_string(), "postgres://me:***@db/shop?password=***");
        assert_eq!(format!("{address:?}"), "StoreAddress(postgres://me:***@db/shop?password=***)");
        assert_eq!(parse("sqlite:app.db").unwrap().to_string(), "sqlite:conf/app.db");
    }
}
