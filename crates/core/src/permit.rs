//! The permit without which nothing is acknowledged (law 11).

/// Proof that the message's effects are durable, were so before, or were refused by policy and recorded. Only core makes one, and only after
/// COMMIT. Consumed by [`Delivery::ack`](crate::Delivery::ack); fits the delivery that it was made for.
#[must_use = "a processed message must be acknowledged, or it will come again"]
#[derive(Debug)]
pub struct AckPermit {
    token: u64,
    outcome: Outcome,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its work is done, by this delivery.
    Processed,
    /// It had been claimed before: nothing was done now.
    Duplicate,
    /// Its id was claimed before with other content: kept as a dead letter, or ignored where the policy says so.
    Conflict,
    /// Set aside with a reason.
    DeadLettered(crate::Reason),
    /// It waits in the inbox for another try.
    Deferred,
    /// No handler wants it, and the policy says to ignore that.
    Ignored,
}

impl AckPermit {
    pub(crate) fn new(token: u64, outcome: Outcome) -> Self {
        AckPermit { token, outcome }
    }
    /// What became of the message.
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }
    /// For a message whose COMMIT had no answer, and was to make it `hoped`: if its claim stands now, that commit was ours (law 7).
    pub(crate) fn after_unknown(self, hoped: Option<Outcome>) -> Self {
        let outcome = hoped.filter(|_| self.outcome == Outcome::Duplicate).unwrap_or(self.outcome);
        AckPermit { outcome, ..self }
    }
    pub(crate) fn fits(&self, token: u64) -> bool {
        self.token == token
    }
}
