//! The core of semel.

mod broker;
mod claim;
mod cloudevents;
mod consumer;
mod dead_letter;
mod error;
mod fingerprint;
mod handler;
mod identity;
mod inbox;
mod instance;
mod json;
mod lanes;
mod message;
mod operate;
mod permit;
mod policy;
mod probe;
mod process;
mod records;
mod replay;
mod retention;
mod retry;
mod semel;
mod store;
mod time;
mod tx;

pub use broker::{BrokerError, Delivery, Features, Positions, Redelivery, Settle, Settled, Source, Subscription};
pub use claim::{Claim, ClaimKey, ClaimWait, Claimed, Claims, ConsumerNumber};
pub use consumer::{Consumer, Progress, RunError, Settings, Stop, Summary};
pub use dead_letter::{DeadLetter, ERROR_LENGTH_MAX, Reason, StoredDeadLetter, VARIANTS_MAX};
pub use error::{HandlerError, HandlerResult, ProcessError};
pub use fingerprint::{BodyDigest, Fingerprint, FingerprintOf};
pub use handler::{AsyncHandlerFn, AsyncWorkFn, Handler, HandlerFn, RawHandler, WorkFn};
pub use identity::{CUT_LENGTH, ID_LENGTH_MAX, Identity, Incoming, NAME_LENGTH_MAX, Pick, Refused, valid_id};
pub use inbox::{Retried, Waiting};
pub use instance::{Instance, Seen};
pub use lanes::Guest;
pub use message::{Cut, Envelope, Message};
pub use operate::{
    ConsumerStatus, DeadFilter, Discarded, Explained, ExplainedClaim, ExplainedWaiting, Forgotten, SweptStep,
};
pub use permit::{AckPermit, Outcome};
pub use policy::{OnConflict, OnStale, OnUnknownKind};
pub use probe::{BUGS, POINTS, planted};
pub use records::{Attempt, Records, Replayed, Setup};
pub use replay::{Replay, ReplayError};
pub use retention::SWEEP_ROWS;
pub use retry::{NextTry, RetryPlan};
pub use semel::{Deliverable, Semel};
pub use store::{Lane, Store, StoreError, Trouble, Writes, Written};
pub use time::Timestamp;
pub use tx::Tx;
