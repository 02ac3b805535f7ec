//! The consumer: handlers by kind, running on a subscription.
//!
//! The way of a message: [`run`](mod@run) pulls it and identifies it · [`lane`] batches, passes it through the hallway
//! ([`process`](crate::process)), retries, defers, buries · and acknowledges. Beside it: [`batch`] (how many at once), [`brake`] (stop before
//! everything is a dead letter), [`careful`] (messages that may kill the process), [`shared`] (what all lanes know).

mod batch;
mod brake;
mod careful;
mod counters;
mod lane;
mod run;
mod run_error;
mod settings;
mod shared;
mod stop;
mod work;

pub use counters::{Progress, Summary};
pub use run_error::RunError;
pub use settings::Settings;
pub use stop::Stop;

use crate::broker::Source;
use crate::handler::{FnHandler, Handler, HandlerFn, Handlers, RawHandler};
use crate::identity::Identity;
use crate::message::Message;
use crate::retry::RetryPlan;
use crate::semel::Semel;
use crate::store::Store;
use std::sync::Arc;
use std::time::Duration;

/// A consumer: a name, which is the scope of its claims, and a handler for each kind of message.
///
/// ```
/// # use semel_core::*;
/// # #[derive(serde::Serialize, serde::Deserialize)] struct OrderPaid { order_id: i64 }
/// # impl Message for OrderPaid { const KIND: &'static str = "order.paid"; }
/// async fn ship<S: Store>(tx: &mut Tx<'_, S>, paid: OrderPaid) -> HandlerResult {
///     // Write through tx.conn(): it is committed together with the claim, or not at all.
///     Ok(())
/// }
/// # async fn example<S: Store>(semel: Semel<S>, source: impl Source) -> Result<(), RunError> {
/// let summary = Consumer::named("shipping", semel).on(ship).run(source).await?;
/// println!("{} processed", summary.processed);
/// # Ok(()) }
/// ```
pub struct Consumer<S: Store> {
    pub(crate) name: String,
    pub(crate) semel: Semel<S>,
    pub(crate) handlers: Handlers<S>,
    pub(crate) settings: Settings,
    pub(crate) stop: Stop,
    pub(crate) progress: Arc<Progress>,
}

impl<S: Store> Consumer<S> {
    /// A consumer of that name. The name is the scope of its claims: another name processes every message anew, so it must not depend on a
    /// class, a host or a version (law 2).
    pub fn named(name: impl Into<String>, semel: Semel<S>) -> Self {
        Consumer {
            name: name.into(),
            semel,
            handlers: Handlers::default(),
            settings: Settings::default(),
            stop: Stop::new(),
            progress: Arc::default(),
        }
    }

    /// Handles messages of kind `M` one by one with an async function or closure. May be run again; see [`Handler`].
    pub fn on<M: Message>(self, handler: impl HandlerFn<S, M>) -> Self {
        self.handler::<M>(FnHandler(handler))
    }

    /// Handles messages of kind `M` many at once, in one transaction: for set-based SQL. The size of the batch follows the load.
    pub fn on_batch<M: Message>(mut self, handler: impl HandlerFn<S, Vec<M>>) -> Self {
        self.handlers.many::<M>(FnHandler(handler));
        self
    }

    /// Handles messages of kind `M` with a struct.
    pub fn handler<M: Message>(mut self, handler: impl Handler<S, M>) -> Self {
        self.handlers.one::<M>(handler);
        self
    }

    /// Handles messages of one kind, or with `None` of every kind that has no handler of its own, without decoding them.
    pub fn raw(mut self, kind: Option<&str>, handler: impl RawHandler<S>) -> Self {
        self.handlers.raw(kind, handler);
        self
    }

    /// All settings at once.
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// How its messages are read: where the id, kind, key and time are. Default: the broker's properties.
    pub fn identity(mut self, identity: Identity) -> Self {
        self.settings.identity = identity;
        self
    }

    /// How many batches may be in work at once. Default 4.
    pub fn lanes(mut self, lanes: usize) -> Self {
        self.settings.lanes = lanes.max(1);
        self
    }

    /// How many messages may share a transaction. Default 100.
    pub fn max_batch(mut self, max_batch: usize) -> Self {
        self.settings.max_batch = max_batch.max(1);
        self
    }

    /// How long a handler may run before its transaction is rolled back and its connection closed. Default 30 s.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.settings.timeout = timeout;
        self
    }

    /// What follows a failure.
    pub fn retry(mut self, plan: RetryPlan) -> Self {
        self.settings.retry = plan;
        self
    }

    /// Ends the run when `stop` says so: nothing new is pulled, what is in work is finished within the grace time, the rest goes back.
    pub fn stop_on(mut self, stop: Stop) -> Self {
        self.stop = stop;
        self
    }

    /// Counts that can be read while it runs.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// Runs until the source ends, or until stopped. The tables must be there: [`Semel::migrate`].
    pub async fn run(self, source: impl Source) -> Result<Summary, RunError> {
        run::run(self, source).await
    }
}
