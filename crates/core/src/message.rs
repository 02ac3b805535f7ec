//! The envelope that a broker delivers, and the trait of the messages in it.

use crate::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A typed message: what handlers take, what [`Consumer::on`](crate::Consumer::on) routes by [`KIND`](Message::KIND).
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct OrderPlaced { order_id: i64 }
///
/// impl semel_core::Message for OrderPlaced {
///     const KIND: &'static str = "order.placed";
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a semel message",
    label = "not a message",
    note = "implement `Message` for it and give it a KIND: `impl Message for {Self} {{ const KIND: &'static str = \"…\"; }}`"
)]
pub trait Message: Serialize + DeserializeOwned + Send + 'static {
    /// The name of this kind of message on the wire, e.g. `order.placed`.
    const KIND: &'static str;
}

/// A message as a broker delivers it, before anybody has decided what its id is: the broker's own properties, the headers, the bytes.
///
/// [`Identity`](crate::Identity) turns it into an [`Incoming`](crate::Incoming), or refuses it with a reason.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Envelope {
    /// The broker's message id property, if the producer set one. Never an id that the broker invents for each delivery (law 9).
    pub id: Option<String>,
    /// The broker's type property.
    pub kind: Option<String>,
    /// The broker's ordering key (partition key, message group, session).
    pub key: Option<String>,
    /// The producer's time. Never the broker's enqueue time (law 26).
    pub time: Option<Timestamp>,
    /// What conversation this belongs to.
    pub correlation_id: Option<String>,
    /// The id of the message that caused this one.
    pub causation_id: Option<String>,
    /// The media type of the body, e.g. `application/json`.
    pub content_type: Option<String>,
    /// Headers in the order of arrival; a name may stand more than once.
    pub headers: Vec<(String, String)>,
    /// The bytes, after content decoding. When [`cut`](Envelope::cut) is set, only their beginning.
    pub body: Vec<u8>,
    /// Set when the body was over the limit: then `body` is its first 64 KiB.
    pub cut: Option<Cut>,
    /// A place in the source that is the same on every delivery, e.g. `payments.jsonl:17` or `orders/3@1042`.
    pub coordinates: Option<String>,
}

/// What is known of a body that was over the limit and was not kept whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// The length of the whole body in bytes.
    pub length: u64,
    /// The digest of the whole body, so that two long bodies with one beginning stay two.
    pub digest: [u8; 16],
}

impl Envelope {
    /// A message with an id and a body; the other properties are public fields.
    pub fn new(id: impl Into<String>, body: impl Into<Vec<u8>>) -> Self {
        Envelope { id: Some(id.into()), body: body.into(), ..Envelope::default() }
    }

    /// The message `message` under `id`, its body as JSON.
    pub fn of<M: Message>(id: impl Into<String>, message: &M) -> serde_json::Result<Self> {
        Ok(Envelope {
            kind: Some(M::KIND.to_owned()),
            content_type: Some("application/json".to_owned()),
            ..Envelope::new(id, serde_json::to_vec(message)?)
        })
    }

    /// The first header of that name. Names are compared without regard to ASCII case, as HTTP and AMQP users expect.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| &**value)
    }

    /// Whether all of the body is here.
    pub fn is_whole(&self) -> bool {
        self.length() == self.body.len() as u64
    }

    /// The length of the body in bytes, also where only its beginning was kept.
    pub fn length(&self) -> u64 {
        self.cut.as_ref().map_or(self.body.len() as u64, |cut| cut.length)
    }
}
