//! The brake (law 31): a mistyped id pointer or a foreign topic must not turn a whole queue into dead letters.

use crate::dead_letter::Reason;
use std::collections::VecDeque;

/// How many of the last messages are looked at; judged only when there were as many.
pub(crate) const SPAN: usize = 200;

/// The last messages' refusals.
#[derive(Debug, Default)]
pub(crate) struct Brake {
    last: VecDeque<Option<Reason>>,
}

impl Brake {
    /// Notes how a message ended, and answers the reason when more than half of the last 200 ended in it. Duplicates and conflicts are not
    /// noted at all: a replay of refused messages must not hide them.
    pub(crate) fn note(&mut self, refusal: Option<Reason>) -> Option<Reason> {
        self.last.push_back(refusal.filter(|reason| reason.is_refusal()));
        if self.last.len() > SPAN {
            self.last.pop_front();
        }
        let reason = refusal.filter(|_| self.last.len() == SPAN)?;
        let same = self.last.iter().filter(|noted| **noted == Some(reason)).count();
        (same > SPAN / 2).then_some(reason)
    }

    /// Whether the brake would have tripped, if there had been 200 messages like the last ones.
    pub(crate) fn is_suspicious(&self) -> bool {
        Reason::ALL
            .iter()
            .any(|reason| self.last.iter().filter(|noted| **noted == Some(*reason)).count() * 2 > self.last.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn judges_only_after_two_hundred_and_only_one_reason() {
        let mut brake = Brake::default();
        let tripped: Vec<usize> = (1..=300).filter(|_| brake.note(Some(Reason::MissingId)).is_some()).collect();
        assert_eq!(tripped.first(), Some(&200));

        let mut mixed = Brake::default();
        let reasons = [Some(Reason::MissingId), Some(Reason::Undecodable), None];
        assert!((0..900).all(|i| mixed.note(reasons[i % 3]).is_none()), "no reason has more than half");

        let mut failing = Brake::default();
        assert!((0..900).all(|_| failing.note(Some(Reason::Failed)).is_none()), "a failing handler is not a refusal");
    }
}
