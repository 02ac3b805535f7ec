//! Which deliveries are answered, and how far the acknowledged ones reach without a gap.

use std::collections::BTreeMap;

/// The position behind the longest run of acknowledged deliveries, whatever the order of the acknowledgements.
///
/// `M` marks a place in the source. Remembered is only what is not acknowledged, so memory is bounded by what is in work, however many
/// deliveries pass. A delivery that was dropped is never acknowledged: the position stays before it, and nothing behind it needs to be
/// remembered any more.
pub(crate) struct Acknowledged<M> {
    /// The place before each delivery that may still be acknowledged, by its number.
    before: BTreeMap<u64, M>,
    /// The place behind the last delivery; once one was dropped, the place before the first of those.
    end: M,
    next: u64,
    dropped: Option<u64>,
    in_work: usize,
}

impl<M: Clone> Acknowledged<M> {
    /// Nothing delivered yet; everything before `start` is acknowledged.
    pub(crate) fn starting_at(start: M) -> Self {
        Acknowledged { before: BTreeMap::new(), end: start, next: 0, dropped: None, in_work: 0 }
    }

    /// Something is delivered, in the order of the source. `after`: the place behind it. Answers its number.
    pub(crate) fn deliver(&mut self, after: M) -> u64 {
        let number = self.next;
        self.next += 1;
        self.in_work += 1;
        if self.dropped.is_none() {
            self.before.insert(number, std::mem::replace(&mut self.end, after));
        }
        number
    }

    /// It was given back.
    pub(crate) fn give_back(&mut self) {
        self.in_work -= 1;
    }

    /// What was given back is delivered again, under its number.
    pub(crate) fn deliver_again(&mut self) {
        self.in_work += 1;
    }

    /// It is acknowledged.
    pub(crate) fn acknowledge(&mut self, number: u64) {
        self.in_work -= 1;
        self.before.remove(&number);
    }

    /// It was dropped without an answer.
    pub(crate) fn abandon(&mut self, number: u64) {
        self.in_work -= 1;
        // A delivery behind an earlier dropped one is not remembered, and changes nothing.
        if let Some(before) = self.before.remove(&number) {
            self.before.split_off(&number);
            self.end = before;
            self.dropped = Some(number);
        }
    }

    /// How many deliveries are without an answer.
    pub(crate) fn in_work(&self) -> usize {
        self.in_work
    }

    /// Where to go on after a restart.
    pub(crate) fn position(&self) -> &M {
        self.before.values().next().unwrap_or(&self.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_position_waits_for_the_slowest() {
        let mut acknowledged = Acknowledged::starting_at(0);
        let numbers: Vec<u64> = (1..=4).map(|after| acknowledged.deliver(after)).collect();
        acknowledged.acknowledge(numbers[2]);
        acknowledged.acknowledge(numbers[1]);
        assert_eq!(*acknowledged.position(), 0);
        acknowledged.acknowledge(numbers[0]);
        assert_eq!((*acknowledged.position(), acknowledged.in_work()), (3, 1));
        acknowledged.give_back();
        acknowledged.deliver_again();
        acknowledged.acknowledge(numbers[3]);
        assert_eq!((*acknowledged.position(), acknowledged.in_work()), (4, 0));
    }

    #[test]
    fn memory_follows_what_is_in_work_and_not_what_has_passed() {
        let mut acknowledged = Acknowledged::starting_at(0);
        let slow = acknowledged.deliver(1);
        for after in 2..10_000 {
            let number = acknowledged.deliver(after);
            acknowledged.acknowledge(number);
        }
        assert_eq!((*acknowledged.position(), acknowledged.before.len()), (0, 1));
        acknowledged.abandon(slow);
        for after in 10_000..20_000 {
            acknowledged.deliver(after);
        }
        assert_eq!((*acknowledged.position(), acknowledged.before.len(), acknowledged.in_work()), (0, 0, 10_000));
    }

    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Fate {
        Open,
        Acknowledged,
        Dropped,
    }

    proptest! {
        #[test]
        fn any_order_of_answers_gives_the_longest_acknowledged_run(
            steps in proptest::collection::vec((0_u8..4, any::<prop::sample::Index>()), 0..200)
        ) {
            let mut acknowledged = Acknowledged::starting_at(0);
            let mut fates: Vec<Fate> = Vec::new();
            for (step, which) in steps {
                let open: Vec<usize> = (0..fates.len()).filter(|i| fates[*i] == Fate::Open).collect();
                if step < 2 || open.is_empty() {
                    prop_assert_eq!(acknowledged.deliver(fates.len() + 1), fates.len() as u64);
                    fates.push(Fate::Open);
                } else {
                    let number = open[which.index(open.len())];
                    // Twice as many acknowledgements as drops, and few drops early on.
                    if step == 2 || !number.is_multiple_of(3) {
                        acknowledged.acknowledge(number as u64);
                        fates[number] = Fate::Acknowledged;
                    } else {
                        acknowledged.abandon(number as u64);
                        fates[number] = Fate::Dropped;
                    }
                }
                let run = fates.iter().take_while(|fate| **fate == Fate::Acknowledged).count();
                let open = fates.iter().filter(|fate| **fate == Fate::Open).count();
                prop_assert_eq!((*acknowledged.position(), acknowledged.in_work()), (run, open));
                prop_assert!(acknowledged.before.len() <= open);
            }
        }
    }
}
