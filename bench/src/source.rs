//! Messages from memory, as a broker would deliver them: so that neither side measures a broker.

use semel::{
    AckPermit, BrokerError, Delivery, Envelope, Features, Positions, Redelivery, Settle, Settled, Source, Subscription,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Delivers its messages once, in order.
pub(crate) struct Memory {
    pub(crate) messages: Arc<Vec<Envelope>>,
    pub(crate) acknowledged: Arc<AtomicUsize>,
}

impl Memory {
    pub(crate) fn new(messages: &Arc<Vec<Envelope>>) -> Self {
        Memory { messages: messages.clone(), acknowledged: Arc::default() }
    }
}

impl Source for Memory {
    type Subscription = Queue;

    fn name(&self) -> String {
        "memory".to_owned()
    }
    fn features(&self) -> Features {
        Features { ends: true, redelivery: Redelivery::ByPosition }
    }
    async fn subscribe(&self, _: &Positions) -> Result<Queue, BrokerError> {
        Ok(Queue { messages: self.messages.clone(), acknowledged: self.acknowledged.clone(), at: 0 })
    }
}

pub(crate) struct Queue {
    messages: Arc<Vec<Envelope>>,
    acknowledged: Arc<AtomicUsize>,
    at: usize,
}

impl Subscription for Queue {
    type Settle = Count;

    async fn next(&mut self, max: usize) -> Result<Vec<Delivery<Count>>, BrokerError> {
        let end = (self.at + max).min(self.messages.len());
        let batch = &self.messages[self.at..end];
        self.at = end;
        Ok(batch.iter().map(|message| Delivery::new(message.clone(), Count(self.acknowledged.clone()))).collect())
    }
}

pub(crate) struct Count(Arc<AtomicUsize>);

impl Settle for Count {
    async fn ack(self, _permit: AckPermit) -> Settled {
        self.0.fetch_add(1, Ordering::Relaxed);
        Settled::Confirmed
    }
    async fn back(self, _delay: Duration) -> Settled {
        Settled::Confirmed
    }
}
