//! Instants as milliseconds: stored as integers, so no session time zone can shift them.

use std::fmt;
use std::time::Duration;

/// An instant, in milliseconds since 1970-01-01T00:00:00Z. Its `Display` is RFC 3339 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Timestamp(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This machine's clock. Where a store is at hand, its clock is the one to ask (law 23): [`Semel::now`](crate::Semel::now).
    pub fn now() -> Self {
        Timestamp(jiff::Timestamp::now().as_millisecond())
    }

    /// Reads an RFC 3339 text, e.g. `2026-03-04T10:20:30.5Z`. A time without a zone is refused: it names no instant.
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<jiff::Timestamp>().ok().map(|t| Timestamp(t.as_millisecond()))
    }

    /// The instant that lies `duration` later.
    pub fn plus(self, duration: Duration) -> Self {
        Timestamp(self.0.saturating_add(millis(duration)))
    }

    /// The instant that lies `duration` earlier.
    pub fn minus(self, duration: Duration) -> Self {
        Timestamp(self.0.saturating_sub(millis(duration)))
    }

    /// How long after `earlier` this is; zero when it is not after it.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0).max(0).unsigned_abs())
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(instant) => write!(f, "{instant}"),
            Err(_) => write!(f, "{} ms", self.0),
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_rfc_3339() {
        let instant = Timestamp::parse("2026-03-04T11:20:30.250+01:00").unwrap();
        assert_eq!(instant.to_string(), "2026-03-04T10:20:30.25Z");
        assert_eq!(Timestamp::parse("2026-03-04T11:20:30"), None, "no zone, no instant");
        assert_eq!(Timestamp::from_millis(i64::MAX).to_string(), format!("{} ms", i64::MAX));
    }
}
