//! Why a run ends before its source does.

use crate::broker::BrokerError;
use crate::dead_letter::Reason;
use crate::store::StoreError;

/// Why a run ended before its source did.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The source cannot be read.
    #[error(transparent)]
    Broker(#[from] BrokerError),
    /// More than half of the last 200 messages ended in one refusal reason (law 31). Nothing more was pulled; the position did not move.
    #[error(
        "consumer {consumer}: more than half of its last 200 messages ended as {reason}; stopped before more become dead letters. \
         Look at one of them, mend the configuration or the source, and run again"
    )]
    Brake {
        /// The consumer.
        consumer: String,
        /// In what they ended.
        reason: Reason,
    },
    /// The consumer has no handler.
    #[error("consumer {0} has no handler: add one with `.on(…)`")]
    NoHandler(String),
    /// A part of the run panicked: a bug in semel or in a broker's or store's crate. Messages in hand come again.
    #[error("consumer {consumer}: an internal error ended the run: {text}")]
    Internal {
        /// The consumer.
        consumer: String,
        /// What is known.
        text: String,
    },
}
