//! A future that is dropped after a number of polls.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Runs `work` for at most `polls` polls and drops it in the middle of whatever it then waits for. `Ok`: it was done before.
/// The polls come when the work is woken, as they would in life.
pub(crate) async fn cut<T>(polls: usize, work: impl Future<Output = T>) -> Result<T, Dropped> {
    Cut { work: Some(Box::pin(work)), left: polls }.await
}

/// The work was dropped before its end.
#[derive(Debug)]
pub(crate) struct Dropped;

struct Cut<W> {
    work: Option<Pin<Box<W>>>,
    left: usize,
}

impl<W: Future> Future for Cut<W> {
    type Output = Result<W::Output, Dropped>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(work) = &mut self.work else { return Poll::Ready(Err(Dropped)) };
        if let Poll::Ready(done) = work.as_mut().poll(context) {
            return Poll::Ready(Ok(done));
        }
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.work = None;
            return Poll::Ready(Err(Dropped));
        }
        Poll::Pending
    }
}
