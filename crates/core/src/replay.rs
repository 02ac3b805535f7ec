//! Replaying a dead letter: it is identified anew, and waits in the inbox as if it had been deferred (law 28).

use crate::dead_letter::{Reason, StoredDeadLetter};
use crate::identity::{Identity, Pick, valid_id};
use crate::inbox::Waiting;
use crate::message::Envelope;
use crate::operate::DeadFilter;
use crate::records::{Records, Replayed};
use crate::semel::Semel;
use crate::store::{Store, StoreError};
use std::time::Duration;

/// How to replay.
#[derive(Debug, Clone, Default)]
pub struct Replay {
    /// Under another id: for a conflict that is a message of its own, and for a message without an id.
    pub new_id: Option<String>,
    /// Also a `stale` one, though it may have been processed before.
    pub force: bool,
    /// Whether later messages of its key wait behind it, as the consumer's settings say.
    pub hold: bool,
}

/// Why a dead letter was not replayed. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It is not there any more.
    #[error("there is no dead letter {0}; `dead list` shows those that there are")]
    Gone(i64),
    /// Its body was over the limit and was not kept whole.
    #[error("only the first 64 KiB of its {0} bytes were kept; raise max_body and let the producer send it again")]
    Cut(u64),
    /// Still without a valid id, or still undecodable.
    #[error("it is still {reason}: {error}; mend the configuration, or give it an id with --as NEW-ID")]
    StillRefused {
        /// Why.
        reason: Reason,
        /// In words.
        error: String,
    },
    /// It may have been processed before.
    #[error(
        "it is stale: nobody can tell whether it was processed before. Look at your own data; if it was not, use --force"
    )]
    Stale,
    /// The id belongs to a message that is done or waits.
    #[error(
        "its id {0:?} is claimed by another message. If that one was processed and this is a message of its own, \
         replay it with --as NEW-ID; if it is worthless, discard it"
    )]
    Claimed(String),
    /// A new id was given to a message that holds the claim of its own.
    #[error("it has an id and the claim of it; replay it without --as")]
    HasId,
    /// No id can look like this.
    #[error("{0}")]
    BadId(&'static str),
}

impl<S: Store> Semel<S> {
    /// Puts a dead letter back into the inbox, due now. `identity` says what its id is today.
    pub async fn replay(&self, number: i64, identity: &Identity, how: &Replay) -> Result<(), ReplayError> {
        let mut lane = self.lane().await?;
        let filter = DeadFilter { number: Some(number), ..DeadFilter::default() };
        let stored = lane.dead_letters(&filter, 0, 1).await?.pop().ok_or(ReplayError::Gone(number))?;
        if stored.letter.reason == Reason::Stale && !how.force {
            return Err(ReplayError::Stale);
        }
        let waiting = waiting(&stored, identity, how)?;
        let replaces = match stored.letter.reason {
            Reason::Conflict if how.new_id.is_none() => self.first_version(&mut *lane, &stored).await?,
            _ => None,
        };
        let replayed = lane.replay(number, &waiting, replaces).await?;
        lane.done();
        match replayed {
            Replayed::Waits => Ok(()),
            Replayed::Gone => Err(ReplayError::Gone(number)),
            Replayed::Claimed => Err(ReplayError::Claimed(waiting.id)),
        }
    }

    /// A conflict may take the place of a first version that is a dead letter itself.
    async fn first_version(&self, lane: &mut S::Lane, stored: &StoredDeadLetter) -> Result<Option<i64>, StoreError> {
        let filter = DeadFilter {
            consumer: Some(stored.consumer.clone()),
            reference: stored.letter.id.clone(),
            ..DeadFilter::default()
        };
        let all = lane.dead_letters(&filter, 0, 100).await?;
        Ok(all
            .iter()
            .find(|other| other.letter.reason.claims() && other.letter.id == stored.letter.id)
            .map(|other| other.number))
    }
}

fn waiting(stored: &StoredDeadLetter, identity: &Identity, how: &Replay) -> Result<Waiting, ReplayError> {
    let letter = &stored.letter;
    if !letter.envelope.is_whole() {
        return Err(ReplayError::Cut(letter.envelope.length()));
    }
    // A body over a small limit was kept whole all the same; today's limit may be larger.
    let envelope = Envelope { cut: None, ..letter.envelope.clone() };
    let mut identity = identity.clone();
    match (&how.new_id, &letter.id) {
        // Its claim stands under its id.
        (Some(_), _) if letter.reason.claims() => return Err(ReplayError::HasId),
        (None, Some(id)) if letter.reason.claims() => identity.id = Pick::Fixed(id.clone()),
        (Some(id), _) => {
            valid_id(id).map_err(ReplayError::BadId)?;
            identity.id = Pick::Fixed(id.clone());
        }
        (None, _) => {}
    }
    let message = identity
        .identify(envelope)
        .map_err(|refused| ReplayError::StillRefused { reason: refused.reason, error: refused.error })?;
    Ok(Waiting {
        holds: how.hold && message.key.is_some(),
        id: message.id,
        kind: message.kind,
        key: message.key,
        time: message.time,
        fingerprint: message.fingerprint,
        attempts: 0,
        delay: Duration::ZERO,
        error: format!("replayed; it was a dead letter: {}", letter.reason),
        instance: String::new(),
        envelope: message.envelope,
    })
}
