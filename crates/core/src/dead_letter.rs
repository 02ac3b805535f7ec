//! Dead letters: messages that could not be processed, kept with their reason.

use crate::fingerprint::Fingerprint;
use crate::message::Envelope;
use crate::time::Timestamp;
use std::fmt;
use std::str::FromStr;

/// Why a message is a dead letter (§4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// The body does not decode, or not as JSON that every database takes.
    Undecodable,
    /// There is no message id where it should be.
    MissingId,
    /// The id is empty, longer than 255 bytes, holds U+0000, or is no text.
    InvalidId,
    /// Over a limit: the first 64 KiB are kept.
    TooLarge,
    /// The same id came before with other content.
    Conflict,
    /// At or below the floor: nobody can tell any more whether it was processed.
    Stale,
    /// From a time that has not come yet.
    Future,
    /// No handler for its kind.
    NoHandler,
    /// The handler said `reject`.
    Rejected,
    /// Every try of the retry plan failed.
    Failed,
    /// It killed the process, as often as allowed.
    Crashed,
}

impl Reason {
    /// All reasons, in the order of the table in §4.
    pub const ALL: [Reason; 11] = [
        Reason::Undecodable,
        Reason::MissingId,
        Reason::InvalidId,
        Reason::TooLarge,
        Reason::Conflict,
        Reason::Stale,
        Reason::Future,
        Reason::NoHandler,
        Reason::Rejected,
        Reason::Failed,
        Reason::Crashed,
    ];

    /// Its name in the store and in every output.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reason::Undecodable => "undecodable",
            Reason::MissingId => "missing-id",
            Reason::InvalidId => "invalid-id",
            Reason::TooLarge => "too-large",
            Reason::Conflict => "conflict",
            Reason::Stale => "stale",
            Reason::Future => "future",
            Reason::NoHandler => "no-handler",
            Reason::Rejected => "rejected",
            Reason::Failed => "failed",
            Reason::Crashed => "crashed",
        }
    }

    /// Whether the dead letter stands beside a claim of its own. Where no claim can exist, the dead letter is the record of responsibility.
    pub const fn claims(self) -> bool {
        matches!(self, Reason::NoHandler | Reason::Rejected | Reason::Failed | Reason::Crashed)
    }

    /// Whether the message was turned away before a handler saw it: what the brake counts (law 31). Conflicts do not count.
    pub const fn is_refusal(self) -> bool {
        !matches!(self, Reason::Conflict | Reason::Rejected | Reason::Failed | Reason::Crashed)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        Reason::ALL.into_iter().find(|reason| reason.as_str() == text).ok_or_else(|| {
            let all: Vec<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
            format!("there is no reason {text:?}; the reasons are {}", all.join(", "))
        })
    }
}

/// A dead letter to be written. Its key is (consumer, reason, id or coordinates, fingerprint); the same again only raises `seen`.
#[derive(Debug, Clone)]
pub struct DeadLetter {
    /// Why.
    pub reason: Reason,
    /// The message id, where it has a valid one.
    pub id: Option<String>,
    /// The kind, where it is known.
    pub kind: String,
    /// The ordering key.
    pub key: Option<String>,
    /// The message's time.
    pub time: Option<Timestamp>,
    /// What the message's content was.
    pub fingerprint: Fingerprint,
    /// What a person should know.
    pub error: String,
    /// How often it was tried.
    pub attempts: u32,
    /// What came.
    pub envelope: Envelope,
}

impl DeadLetter {
    /// The part of its key that names the message: its id, else its coordinates, else nothing (then the fingerprint alone tells).
    pub fn reference(&self) -> &str {
        self.id.as_deref().or(self.envelope.coordinates.as_deref()).unwrap_or_default()
    }
}

/// How many different contents of one id are kept; further ones only raise the count of the last (law 30).
pub const VARIANTS_MAX: i64 = 20;
/// Longest error text that is stored, in bytes.
pub const ERROR_LENGTH_MAX: usize = 4096;

/// `text` without U+0000, which not every database stores, and cut to a length.
pub(crate) fn error_text(text: &str) -> String {
    let mut text = text.replace('\0', "\u{fffd}");
    if text.len() > ERROR_LENGTH_MAX {
        let end = (0..=ERROR_LENGTH_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        text.truncate(end);
        text.push('…');
    }
    text
}

/// A dead letter as it is read back.
#[derive(Debug, Clone)]
pub struct StoredDeadLetter {
    /// Its number in the store.
    pub number: i64,
    /// The consumer's name.
    pub consumer: String,
    /// How often the same message came.
    pub seen: u64,
    /// When it was first set aside.
    pub first_at: Timestamp,
    /// When it last came.
    pub last_at: Timestamp,
    /// The rest.
    pub letter: DeadLetter,
}
