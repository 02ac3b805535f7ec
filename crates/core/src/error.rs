//! What handlers return when they fail, and what the one-call forms return.

use crate::dead_letter::Reason;
use crate::store::StoreError;
use std::error::Error as StdError;
use std::time::Duration;

pub(crate) type BoxError = Box<dyn StdError + Send + Sync>;

/// What a handler returns.
pub type HandlerResult<T = ()> = Result<T, HandlerError>;

/// Why a handler failed, and what should follow.
///
/// It is not itself a `std::error::Error`, so that `?` takes every error; `?` means "try again as the retry plan says". A `Box<dyn Error>` or
/// an `anyhow::Error` goes through [`from_boxed`](HandlerError::from_boxed).
#[derive(Debug)]
pub struct HandlerError {
    pub(crate) wish: Wish,
    pub(crate) source: BoxError,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wish {
    Retry(Option<Duration>),
    Bury(Reason),
}

impl<E: StdError + Send + Sync + 'static> From<E> for HandlerError {
    fn from(error: E) -> Self {
        HandlerError { wish: Wish::Retry(None), source: Box::new(error) }
    }
}

impl HandlerError {
    /// Can never succeed: a dead letter (`rejected`), now.
    pub fn reject(reason: impl Into<BoxError>) -> Self {
        HandlerError { wish: Wish::Bury(Reason::Rejected), source: reason.into() }
    }

    /// Not now: wait in the inbox for `delay`. Counts as a try of the retry plan.
    pub fn retry_after(delay: Duration, reason: impl Into<BoxError>) -> Self {
        HandlerError { wish: Wish::Retry(Some(delay)), source: reason.into() }
    }

    /// The body is not what the handler takes: a dead letter (`undecodable`), now.
    pub fn undecodable(reason: impl Into<BoxError>) -> Self {
        HandlerError { wish: Wish::Bury(Reason::Undecodable), source: reason.into() }
    }

    /// Try again as the retry plan says; for errors that are boxed already.
    pub fn from_boxed(error: impl Into<BoxError>) -> Self {
        HandlerError { wish: Wish::Retry(None), source: error.into() }
    }

    /// The error and what it came from, in one line.
    pub(crate) fn text(&self) -> String {
        chain(&*self.source)
    }
}

/// An error with its sources. Drivers often repeat the source in their own text; what is there already is not said again.
pub(crate) fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    crate::dead_letter::error_text(&text)
}

/// Why [`Semel::process`](crate::Semel::process) or [`Semel::transaction`](crate::Semel::transaction) did not commit. In each case nothing was
/// changed, and the message must not be acknowledged; only after [`Store`](ProcessError::Store) with an unknown outcome may it have been:
/// deliver it again, and the claim tells.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// A twin of the message is being processed at this moment. Try again a little later.
    #[error("another copy of this message is being processed")]
    Busy,
    /// The store cannot be reached, or failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The work failed with an error, or hid a database error, or deadlocked too often.
    #[error("the work failed: {text}")]
    Failed {
        /// The error and its sources in one line.
        text: String,
        /// The error itself.
        source: BoxError,
    },
    /// The work wants this message rejected for good.
    #[error("the work rejected the message: {text}")]
    Rejected {
        /// The reason in one line.
        text: String,
        /// The error itself.
        source: BoxError,
    },
    /// The work panicked; its transaction was rolled back.
    #[error("the work panicked: {0}")]
    Panicked(String),
    /// The work ran over its time limit; its transaction was rolled back.
    #[error("the work took longer than {0:?}")]
    TimedOut(Duration),
}
