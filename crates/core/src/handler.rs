//! Handlers: functions, closures that capture, structs, and batch handlers; and the one place where their types are erased.

use crate::error::{HandlerError, HandlerResult};
use crate::identity::Incoming;
use crate::message::Message;
use crate::store::Store;
use crate::tx::Tx;
use std::collections::HashMap;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

/// A handler that is a struct. `M` is a [`Message`], or a `Vec` of them for a batch handler.
#[diagnostic::on_unimplemented(message = "`{Self}` does not handle `{M}` on the store `{S}`")]
pub trait Handler<S: Store, M>: Send + Sync + 'static {
    /// Does the work of one message. May be run again: after a deadlock, and after a crash before the commit.
    fn handle(&self, tx: &mut Tx<'_, S>, message: M) -> impl Future<Output = HandlerResult> + Send;
}

/// A handler of raw messages of any kind, many at once: what `semel run` is made of.
pub trait RawHandler<S: Store>: Send + Sync + 'static {
    /// Does the work of a run of messages, in order; all of it, or none.
    fn handle(&self, tx: &mut Tx<'_, S>, run: &[&Incoming]) -> impl Future<Output = HandlerResult> + Send;
}

/// Names the future of an async function of two arguments, so that `Send` can be required of it. Not for implementing.
pub trait AsyncHandlerFn<A, B, R>:
    AsyncFnOnce(A, B) -> R + FnOnce(A, B) -> <Self as AsyncHandlerFn<A, B, R>>::Fut
{
    /// The future.
    type Fut: Future<Output = R>;
}
impl<F, A, B, R, Fut> AsyncHandlerFn<A, B, R> for F
where
    F: AsyncFnOnce(A, B) -> R + FnOnce(A, B) -> Fut,
    Fut: Future<Output = R>,
{
    type Fut = Fut;
}

/// The same for one argument: the work of [`Semel::process`](crate::Semel::process) and [`Semel::transaction`](crate::Semel::transaction).
pub trait AsyncWorkFn<A, R>: AsyncFnOnce(A) -> R + FnOnce(A) -> <Self as AsyncWorkFn<A, R>>::Fut {
    /// The future.
    type Fut: Future<Output = R>;
}
impl<F, A, R, Fut> AsyncWorkFn<A, R> for F
where
    F: AsyncFnOnce(A) -> R + FnOnce(A) -> Fut,
    Fut: Future<Output = R>,
{
    type Fut = Fut;
}

/// An async function or closure that handles `M`: `async fn(&mut Tx<'_, S>, M) -> HandlerResult`. `Clone`, because every run, and every
/// re-run, gets a fresh copy of what it captured.
pub trait HandlerFn<S: Store, M>:
    Clone
    + Send
    + Sync
    + 'static
    + for<'a, 't> AsyncFnOnce(&'a mut Tx<'t, S>, M) -> HandlerResult
    + for<'a, 't> AsyncHandlerFn<&'a mut Tx<'t, S>, M, HandlerResult, Fut: Send>
{
}
impl<S: Store, M, F> HandlerFn<S, M> for F where
    F: Clone
        + Send
        + Sync
        + 'static
        + for<'a, 't> AsyncFnOnce(&'a mut Tx<'t, S>, M) -> HandlerResult
        + for<'a, 't> AsyncHandlerFn<&'a mut Tx<'t, S>, M, HandlerResult, Fut: Send>
{
}

/// The work of `process` and `transaction`: `async |tx| …`. It may borrow; it is cloned for each run.
pub trait WorkFn<S: Store, T>:
    Clone
    + Send
    + Sync
    + for<'a, 't> AsyncFnOnce(&'a mut Tx<'t, S>) -> HandlerResult<T>
    + for<'a, 't> AsyncWorkFn<&'a mut Tx<'t, S>, HandlerResult<T>, Fut: Send>
{
}
impl<S: Store, T, F> WorkFn<S, T> for F where
    F: Clone
        + Send
        + Sync
        + for<'a, 't> AsyncFnOnce(&'a mut Tx<'t, S>) -> HandlerResult<T>
        + for<'a, 't> AsyncWorkFn<&'a mut Tx<'t, S>, HandlerResult<T>, Fut: Send>
{
}

pub(crate) struct FnHandler<F>(pub(crate) F);
impl<S: Store, M: Send + 'static, F: HandlerFn<S, M>> Handler<S, M> for FnHandler<F> {
    fn handle(&self, tx: &mut Tx<'_, S>, message: M) -> impl Future<Output = HandlerResult> + Send {
        (self.0.clone())(tx, message)
    }
}

pub(crate) type Handled<'a> = Pin<Box<dyn Future<Output = HandlerResult> + Send + 'a>>;

/// The only erasure: a run of messages for one handler, in order.
pub(crate) trait Erased<S: Store>: Send + Sync {
    fn call<'a, 't: 'a>(&'a self, tx: &'a mut Tx<'t, S>, run: &'a [&'t Incoming]) -> Handled<'a>;
}

struct One<H, M>(H, PhantomData<fn(M)>);
impl<S: Store, M: Message, H: Handler<S, M>> Erased<S> for One<H, M> {
    fn call<'a, 't: 'a>(&'a self, tx: &'a mut Tx<'t, S>, run: &'a [&'t Incoming]) -> Handled<'a> {
        Box::pin(async move {
            for message in run {
                tx.turn_to(message);
                self.0.handle(tx, decode::<M>(message)?).await?;
            }
            Ok(())
        })
    }
}

struct Many<H, M>(H, PhantomData<fn(M)>);
impl<S: Store, M: Message, H: Handler<S, Vec<M>>> Erased<S> for Many<H, M> {
    fn call<'a, 't: 'a>(&'a self, tx: &'a mut Tx<'t, S>, run: &'a [&'t Incoming]) -> Handled<'a> {
        Box::pin(async move {
            tx.turn_to(run[0]);
            let messages = run.iter().map(|message| decode(message)).collect::<HandlerResult<Vec<M>>>()?;
            self.0.handle(tx, messages).await
        })
    }
}

struct Raw<H>(H);
impl<S: Store, H: RawHandler<S>> Erased<S> for Raw<H> {
    fn call<'a, 't: 'a>(&'a self, tx: &'a mut Tx<'t, S>, run: &'a [&'t Incoming]) -> Handled<'a> {
        tx.turn_to(run[0]);
        Box::pin(self.0.handle(tx, run))
    }
}

fn decode<M: Message>(message: &Incoming) -> HandlerResult<M> {
    serde_json::from_slice(message.body()).map_err(|error| {
        // serde_json quotes values in `invalid type` errors: say where, not what.
        let (line, column) = (error.line(), error.column());
        HandlerError::undecodable(format!("the body is not a {} (line {line}, column {column})", M::KIND))
    })
}

/// The handlers of a consumer, by kind.
pub(crate) struct Handlers<S: Store> {
    by_kind: HashMap<String, Arc<dyn Erased<S>>>,
    any: Option<Arc<dyn Erased<S>>>,
}

impl<S: Store> Default for Handlers<S> {
    fn default() -> Self {
        Handlers { by_kind: HashMap::new(), any: None }
    }
}

impl<S: Store> Handlers<S> {
    pub(crate) fn one<M: Message>(&mut self, handler: impl Handler<S, M>) {
        self.by_kind.insert(M::KIND.to_owned(), Arc::new(One(handler, PhantomData::<fn(M)>)));
    }

    pub(crate) fn many<M: Message>(&mut self, handler: impl Handler<S, Vec<M>>) {
        self.by_kind.insert(M::KIND.to_owned(), Arc::new(Many(handler, PhantomData::<fn(M)>)));
    }

    /// `None`: for every kind that has no handler of its own.
    pub(crate) fn raw(&mut self, kind: Option<&str>, handler: impl RawHandler<S>) {
        let handler: Arc<dyn Erased<S>> = Arc::new(Raw(handler));
        match kind {
            Some(kind) => drop(self.by_kind.insert(kind.to_owned(), handler)),
            None => self.any = Some(handler),
        }
    }

    pub(crate) fn get(&self, kind: &str) -> Option<&Arc<dyn Erased<S>>> {
        self.by_kind.get(kind).or(self.any.as_ref())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.any.is_none()
    }

    /// Hands each stretch of messages that one handler takes to that handler, in order.
    pub(crate) async fn handle<'t>(&self, tx: &mut Tx<'t, S>, messages: &[&'t Incoming]) -> HandlerResult {
        let mut rest = messages;
        while let Some(first) = rest.first() {
            let Some(handler) = self.get(first.kind()) else {
                return Err(HandlerError::from_boxed(format!("no handler takes the kind {:?}", first.kind())));
            };
            let same = |message: &&Incoming| self.get(message.kind()).is_some_and(|other| Arc::ptr_eq(other, handler));
            let length = rest.iter().take_while(|message| same(message)).count();
            let (run, later) = rest.split_at(length);
            handler.call(tx, run).await?;
            rest = later;
        }
        Ok(())
    }
}
