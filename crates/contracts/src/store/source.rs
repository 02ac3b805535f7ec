//! A source in memory: a list of deliveries, and a book of how each was answered.

use semel_core::{
    AckPermit, BrokerError, Delivery, Envelope, Features, Message, Outcome, Positions, Redelivery, Settle, Settled,
    Source, Subscription,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// How deliveries were answered, in the order of the answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Book(Arc<Mutex<Answers>>);

#[derive(Debug, Default)]
struct Answers {
    acked: Vec<(String, Outcome)>,
    returned: Vec<String>,
    lose_acks: bool,
}

impl Book {
    fn answers(&self) -> MutexGuard<'_, Answers> {
        self.0.lock().expect("no panic while answering")
    }

    /// From now on no ack arrives.
    pub(crate) fn lose_acks(&self) {
        self.answers().lose_acks = true;
    }

    pub(crate) fn acked(&self) -> Vec<String> {
        self.answers().acked.iter().map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn acked_as(&self, outcome: Outcome) -> Vec<String> {
        self.answers().acked.iter().filter(|(_, found)| *found == outcome).map(|(id, _)| id.clone()).collect()
    }

    pub(crate) fn returned(&self) -> Vec<String> {
        self.answers().returned.clone()
    }
}

/// The answer to one delivery, to be noted.
#[derive(Debug)]
pub(crate) struct Note {
    book: Book,
    id: String,
}

impl Note {
    pub(crate) fn new(book: &Book, id: &str) -> Self {
        Note { book: book.clone(), id: id.to_owned() }
    }
}

impl Settle for Note {
    async fn ack(self, permit: AckPermit) -> Settled {
        let mut answers = self.book.answers();
        if answers.lose_acks {
            return Settled::Lost;
        }
        answers.acked.push((self.id, permit.outcome()));
        Settled::Confirmed
    }

    async fn back(self, _delay: Duration) -> Settled {
        self.book.answers().returned.push(self.id);
        Settled::Confirmed
    }
}

/// Delivers what it was given, once, and then ends.
pub(crate) struct Memory {
    envelopes: Mutex<VecDeque<Envelope>>,
    book: Book,
    redelivered: bool,
}

impl Memory {
    pub(crate) fn new(envelopes: impl IntoIterator<Item = Envelope>) -> (Self, Book) {
        let book = Book::default();
        (
            Memory { envelopes: Mutex::new(envelopes.into_iter().collect()), book: book.clone(), redelivered: false },
            book,
        )
    }

    /// Says of each delivery that it may have been delivered before.
    pub(crate) fn redelivered(self) -> Self {
        Memory { redelivered: true, ..self }
    }
}

impl Source for Memory {
    type Subscription = Reading;

    fn name(&self) -> String {
        "memory".to_owned()
    }

    fn features(&self) -> Features {
        Features { ends: true, redelivery: Redelivery::Told }
    }

    async fn subscribe(&self, _positions: &Positions) -> Result<Reading, BrokerError> {
        let envelopes = std::mem::take(&mut *self.envelopes.lock().expect("no panic while reading"));
        Ok(Reading { envelopes, book: self.book.clone(), redelivered: self.redelivered })
    }
}

pub(crate) struct Reading {
    envelopes: VecDeque<Envelope>,
    book: Book,
    redelivered: bool,
}

impl Subscription for Reading {
    type Settle = Note;

    async fn next(&mut self, max: usize) -> Result<Vec<Delivery<Note>>, BrokerError> {
        let max = max.min(self.envelopes.len());
        let deliver = |envelope: Envelope| {
            let note = Note::new(&self.book, envelope.id.as_deref().unwrap_or_default());
            let mut delivery = Delivery::new(envelope, note);
            delivery.redelivered = Some(self.redelivered);
            delivery
        };
        Ok(self.envelopes.drain(..max).map(deliver).collect())
    }
}

macro_rules! message {
    ($name:ident, $kind:literal) => {
        #[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
        pub(crate) struct $name {
            pub(crate) v: String,
        }
        impl Message for $name {
            const KIND: &'static str = $kind;
        }
    };
}
message!(Placed, "order.placed");
message!(Paid, "order.paid");
message!(Shipped, "order.shipped");
message!(Billed, "order.billed");

/// A message whose effect is its id.
pub(crate) fn of_kind(kind: &str, id: &str) -> Envelope {
    Envelope { kind: Some(kind.to_owned()), ..Envelope::new(id, format!("{{\"v\":\"{id}\"}}")) }
}

pub(crate) fn placed(id: &str) -> Envelope {
    of_kind(Placed::KIND, id)
}
