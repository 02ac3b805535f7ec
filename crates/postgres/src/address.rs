//! The store's URL: read with care, named without its password.

use semel_core::{StoreError, Trouble};
use sqlx::ConnectOptions;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use std::fmt;
use std::time::Duration;

/// Unless the URL says `connect_timeout`.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The parameters that a URL may have, in the driver's spelling and libpq's.
const PARAMETERS: [&str; 19] = [
    "application_name",
    "connect_timeout",
    "dbname",
    "host",
    "hostaddr",
    "options",
    "password",
    "port",
    "sslcert",
    "ssl-cert",
    "sslkey",
    "ssl-key",
    "sslmode",
    "ssl-mode",
    "sslrootcert",
    "ssl-root-cert",
    "ssl-ca",
    "statement-cache-capacity",
    "user",
];

/// Where a database is and how it is reached.
#[derive(Clone)]
pub(crate) struct Address {
    pub(crate) options: PgConnectOptions,
    pub(crate) connect_timeout: Duration,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Address, StoreError> {
        let (url, connect_timeout) = checked(text).map_err(|error| StoreError::new(Trouble::Other, error))?;
        // The driver's text names what it could not read, never the whole URL.
        let options: PgConnectOptions = url.parse().map_err(|error: sqlx::Error| StoreError {
            trouble: Trouble::Other,
            message: format!(
                "the store's URL cannot be read: {error}; it looks like postgres://USER:PASSWORD@HOST:PORT/DATABASE"
            ),
            source: Some(Box::new(error)),
        })?;
        // The driver would log each statement, and each slow one as a warning: a claim that waits for its twin is no
        // news.
        let mut options = options.disable_statement_logging();
        if options.get_application_name().is_none() {
            options = options.application_name("semel");
        }
        if wants_tls(options.get_ssl_mode()) && !sqlx_core::net::tls::available() {
            return Err(StoreError::new(
                Trouble::Other,
                "the store's URL asks for TLS (sslmode), and this program is built without it: use a build with TLS, \
                 or sslmode=disable where the network is trusted",
            ));
        }
        Ok(Address { options, connect_timeout })
    }
}

fn wants_tls(mode: PgSslMode) -> bool {
    matches!(mode, PgSslMode::Require | PgSslMode::VerifyCa | PgSslMode::VerifyFull)
}

/// The URL without what the driver does not know. A misspelt `sslmode` must not be ignored, as the driver would do.
fn checked(text: &str) -> Result<(String, Duration), String> {
    let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
    if !["postgres", "postgresql"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
        return Err("the store's URL does not begin with postgres:// or postgresql://".into());
    }
    let (text, fragment) = text.split_once('#').map_or((text, None), |(text, fragment)| (text, Some(fragment)));
    if fragment.is_some() {
        return Err("the store's URL holds a `#`; inside a password it is written %23".into());
    }
    let (place, query) = text.split_once('?').map_or((text, None), |(place, query)| (place, Some(query)));
    // The rest of a password that ends too early must not be read, and shown, as a parameter or a database.
    let (_, path) = place.split_once("://").unwrap_or_default().1.split_once('/').unwrap_or_default();
    if path.contains('@') || query.is_some_and(|query| query.split('=').next().unwrap_or_default().contains('@')) {
        return Err(
            "the store's URL holds a `/` or `?` before its last `@`; inside a password they are written %2F and %3F"
                .into(),
        );
    }
    let Some(query) = query else { return Ok((text.to_owned(), CONNECT_TIMEOUT)) };
    let mut timeout = CONNECT_TIMEOUT;
    let mut kept = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match name {
            "connect_timeout" => {
                let seconds: u64 = value
                    .parse()
                    .map_err(|_| "connect_timeout in the store's URL is no number of seconds".to_owned())?;
                // As with libpq, 0 is no limit; a day is as good, and can be added to a clock.
                timeout = Duration::from_secs(if seconds == 0 { 86_400 } else { seconds.min(86_400) });
            }
            name if PARAMETERS.contains(&name) || name.starts_with("options[") || name.starts_with("options%5B") => {
                kept.push(pair)
            }
            name => {
                return Err(format!(
                    "the store's URL has the parameter {name:?}, which is none of {}",
                    PARAMETERS.join(", ")
                ));
            }
        }
    }
    let url = if kept.is_empty() { place.to_owned() } else { format!("{place}?{}", kept.join("&")) };
    Ok((url, timeout))
}

/// Host, port, database and user.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let options = &self.options;
        match options.get_socket() {
            Some(socket) => write!(f, "{}", socket.display())?,
            None => write!(f, "{}", options.get_host())?,
        }
        let database = options.get_database().unwrap_or(options.get_username());
        write!(f, ":{}/{database} as {}", options.get_port(), options.get_username())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_wrong_and_never_the_password() {
        let refused = |url: &str| Address::parse(url).expect_err(url);
        for url in [
            "mysql://u:s3cret@h/d",
            "postgres://u:s3cret@h:99999999/d",
            "postgres://u:s3cret@h/d?sslmod=require",
            "postgres://u:s3cret@h/d?sslmode=perhaps",
            "postgres://u:s3cret@h/d?connect_timeout=soon",
            "postgres://u:s3cret#x@h/d",
            "postgres://u:x?s3cret@h/d",
            "postgres://u:12/s3cret@h/d",
            "s3cret",
        ] {
            let error = refused(url);
            assert!(!error.to_string().contains("s3cret"), "{error}");
            assert!(error.to_string().contains("store's URL"), "{error}");
        }
        assert!(refused("postgres://h/d?sslmode=require").to_string().contains("TLS"));
    }

    #[test]
    fn names_the_place_without_the_password() {
        let address =
            Address::parse("postgres://ada:s3cret@db.example:6000/shop?connect_timeout=3&application_name=till")
                .unwrap();
        assert_eq!(address.to_string(), "db.example:6000/shop as ada");
        assert_eq!(format!("{address:?}"), "db.example:6000/shop as ada");
        assert_eq!(address.connect_timeout, Duration::from_secs(3));
        assert_eq!(address.options.get_application_name(), Some("till"));
        assert_eq!(Address::parse("PostgreSQL://h/d").unwrap().options.get_application_name(), Some("semel"));
    }
}
