//! Addresses without their secrets.

use std::fmt;

const HIDDEN: &str = "***";

/// Schemes in which the name before the `@` is no secret of its own. (A NATS token stands there alone.)
const SCHEMES_WITH_USER: &[&str] = &["postgres", "postgresql", "mysql", "mariadb", "amqp", "amqps"];

/// Parts of the names of parameters whose values are hidden.
const SECRET_NAMES: &[&str] = &["pass", "pwd", "secret", "token", "key", "sig", "cred"];

/// An address as a person may see it: without the password, in all places where one can stand. In doubt it shows less.
pub(super) fn redact(address: &str) -> String {
    let scheme_end = address.find("://");
    let is_pairs = address.find('=').is_some_and(|equals| scheme_end.is_none_or(|end| equals < end));
    match scheme_end {
        _ if is_pairs => parameters(address, ';', is_public_name),
        Some(end) => redact_url(&address[..end], &address[end + 3..]),
        None if address.contains('@') => HIDDEN.into(),
        None => address.into(),
    }
}

fn redact_url(scheme: &str, rest: &str) -> String {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if tail.contains('@') {
        // A password with an unescaped "/" or "?", or a list of URLs.
        return format!("{scheme}://{HIDDEN}");
    }
    let user_and_host = match authority.rsplit_once('@') {
        None => authority.into(),
        Some((user, host)) => format!("{}@{host}", redact_user(scheme, user)),
    };
    let tail = match tail.split_once('?') {
        None => tail.into(),
        Some((path, query)) => format!("{path}?{}", parameters(query, '&', |name| !is_secret_name(name))),
    };
    format!("{scheme}://{user_and_host}{tail}")
}

fn redact_user(scheme: &str, user: &str) -> String {
    let shows_user =
        SCHEMES_WITH_USER.iter().any(|known| known.eq_ignore_ascii_case(scheme)) && !user.contains(['@', ',']);
    match user.split_once(':') {
        _ if !shows_user => HIDDEN.into(),
        Some((name, _)) => format!("{name}:{HIDDEN}"),
        None => user.into(),
    }
}

/// `name=value` pairs, of which only the values with a public name are shown.
fn parameters(text: &str, separator: char, is_public: fn(&str) -> bool) -> String {
    let shown: Vec<String> = text
        .split(separator)
        .map(|pair| match pair.split_once('=') {
            Some((name, _)) if !is_public(name) => format!("{name}={HIDDEN}"),
            _ => pair.into(),
        })
        .collect();
    shown.join(&separator.to_string())
}

/// In a connection string of pairs only these are known to be harmless.
fn is_public_name(name: &str) -> bool {
    ["Endpoint", "EntityPath"].iter().any(|public| public.eq_ignore_ascii_case(name))
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // A name with "%" may spell any of them.
    name.contains('%') || SECRET_NAMES.iter().any(|part| name.contains(part))
}

/// The address of a broker or an endpoint. `Display` and `Debug` hide its password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address(String);

impl Address {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The whole address, password included: to connect, never to show.
    #[allow(dead_code, reason = "for brokers and handlers, of which not all exist yet")]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&redact(&self.0))
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&redact(&self.0), f)
    }
}

/// A secret. It has no `Display`, and its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    /// The secret itself: to use, never to show.
    #[allow(dead_code, reason = "for brokers and handlers, of which not all exist yet")]
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HIDDEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_an_address_shows_its_password() {
        for (address, shown) in [
            ("postgres://me:hunter2@db:5432/shop", "postgres://me:***@db:5432/shop"),
            (
                "postgres://me@db/shop?password=hunter2&sslmode=require",
                "postgres://me@db/shop?password=***&sslmode=require",
            ),
            ("postgres://me:hun@ter2@db/shop", "postgres://***@db/shop"),
            ("postgres://me:hun/ter2@db/shop", "postgres://***"),
            ("postgres://me:hun?ter2@db/shop", "postgres://***"),
            ("postgres://db/shop?password=hun@ter2", "postgres://***"),
            ("postgres://db:5432/shop", "postgres://db:5432/shop"),
            ("amqp://me:hunter2@mq/%2f", "amqp://me:***@mq/%2f"),
            ("nats://hunter2@mq:4222", "nats://***@mq:4222"),
            ("nats://a:hunter2@one,nats://a:hunter2@two", "nats://***"),
            ("redis://:hunter2@cache", "redis://***@cache"),
            ("https://hooks.example/in?token=hunter2", "https://hooks.example/in?token=***"),
            ("one:9092,two:9092", "one:9092,two:9092"),
            ("me:hunter2@one:9092", "***"),
            ("host=db user=me password=hunter2", "host=***"),
            (
                "Endpoint=sb://shop.example/;SharedAccessKeyName=send;SharedAccessKey=hunter2=",
                "Endpoint=sb://shop.example/;SharedAccessKeyName=***;SharedAccessKey=***",
            ),
        ] {
            assert_eq!(redact(address), shown);
            assert!(!format!("{:?}", Address::new(address.into())).contains("hunter2"), "{address}");
        }
        assert_eq!(format!("{:?}", Secret::new("hunter2".into())), "***");
    }
}
