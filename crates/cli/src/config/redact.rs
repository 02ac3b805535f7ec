//! Addresses without their secrets.

use std::fmt;

const HIDDEN: &str = "***";

/// Schemes in which the name before the `@` is no secret of its own. (A NATS token stands there alone.)
const SCHEMES_WITH_USER: &[&str] = &["postgres", "postgresql", "mysql", "mariadb", "amqp", "amqps"];

/// Parameters whose values are shown. All others are hidden: a secret may stand behind a mistyped name.
const PUBLIC_NAMES: &[&str] = &[
    "application_name",
    "channel_max",
    "connect_timeout",
    "dbname",
    "endpoint",
    "entitypath",
    "frame_max",
    "heartbeat",
    "host",
    "port",
    "ssl-mode",
    "sslmode",
    "user",
];

/// An address as a person may see it: without the password, in all places where one can stand. In doubt it shows less.
pub(super) fn redact(address: &str) -> String {
    let scheme_end = address.find("://");
    let is_pairs = address.find('=').is_some_and(|equals| scheme_end.is_none_or(|end| equals < end));
    match scheme_end {
        _ if is_pairs => parameters(address, ';'),
        Some(end) => redact_url(&address[..end], &address[end + 3..]),
        None if address.contains('@') => HIDDEN.into(),
        None => address.into(),
    }
}

fn redact_url(scheme: &str, rest: &str) -> String {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    // A password with an unescaped "/" or "?", a password without its "@", or a list of URLs.
    let is_in_doubt = tail.contains('@') || !authority.contains('@') && !authority.split(',').all(is_host);
    if is_in_doubt {
        return format!("{scheme}://{HIDDEN}");
    }
    let user_and_host = match authority.rsplit_once('@') {
        None => authority.into(),
        Some((user, host)) => format!("{}@{host}", redact_user(scheme, user)),
    };
    let (path, query) = tail.split_once('?').map_or((tail, None), |(path, query)| (path, Some(query)));
    let path = if path.contains('=') { HIDDEN } else { path };
    let query = query.map_or(String::new(), |query| format!("?{}", parameters(query, '&')));
    format!("{scheme}://{user_and_host}{path}{query}")
}

/// Whether a text is a host, and not a user with a password.
fn is_host(text: &str) -> bool {
    let port = text.rsplit_once(':').map_or("", |(_, port)| port);
    text.ends_with(']') || port.bytes().all(|byte| byte.is_ascii_digit())
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

/// `name=value` pairs, of which only the values with a public name are shown, and only what looks like a pair at all.
fn parameters(text: &str, separator: char) -> String {
    let is_public = |name: &str| PUBLIC_NAMES.iter().any(|public| public.eq_ignore_ascii_case(name));
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let is_plain = |value: &str| !value.contains(|c: char| c.is_whitespace() || matches!(c, '=' | '@'));
    let shown: Vec<String> = text
        .split(separator)
        .map(|pair| match pair.split_once('=') {
            _ if pair.is_empty() => String::new(),
            Some((name, value)) if is_public(name) && is_plain(value) => pair.into(),
            Some((name, _)) if is_name(name) => format!("{name}={HIDDEN}"),
            _ => HIDDEN.into(),
        })
        .collect();
    shown.join(&separator.to_string())
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
            ("postgres://[::1]:5432,[::2]/shop", "postgres://[::1]:5432,[::2]/shop"),
            ("postgres://me:hunter2.db/shop", "postgres://***"),
            ("postgres://db/shop?pasword=hunter2&hunter2", "postgres://db/shop?pasword=***&***"),
            ("postgres://db/shop,password=hunter2", "postgres://db***"),
            ("amqp://me:hunter2@mq/%2f", "amqp://me:***@mq/%2f"),
            ("nats://hunter2@mq:4222", "nats://***@mq:4222"),
            ("nats://a:hunter2@one,nats://a:hunter2@two", "nats://***"),
            ("redis://:hunter2@cache", "redis://***@cache"),
            ("https://hooks.example/in?token=hunter2", "https://hooks.example/in?token=***"),
            ("one:9092,two:9092", "one:9092,two:9092"),
            ("me:hunter2@one:9092", "***"),
            ("host=db user=me password=hunter2", "host=***"),
            ("Endpoint=sb://shop.example/SharedAccessKey=hunter2", "Endpoint=***"),
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
