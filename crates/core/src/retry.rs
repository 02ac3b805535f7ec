//! The retry plan: in place with backoff, then deferred, then a dead letter.

use std::time::Duration;

/// How often, and when, a failed message is tried again.
///
/// The first try and `immediate` more happen in place, with backoff and jitter and with no transaction open; then the message waits in the
/// inbox once for each entry of `deferred`; then it becomes a dead letter. All tries: 1 + `immediate` + `deferred.len()`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPlan {
    /// Tries in place after the first. Default 3.
    pub immediate: u32,
    /// Waiting times of the tries from the inbox. Default 10 s, 1 min, 10 min.
    pub deferred: Vec<Duration>,
}

impl Default for RetryPlan {
    fn default() -> Self {
        RetryPlan { immediate: 3, deferred: [10, 60, 600].map(Duration::from_secs).to_vec() }
    }
}

/// What follows a failed try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextTry {
    /// Try again in place after this time.
    InPlace(Duration),
    /// Wait in the inbox for this time.
    Deferred(Duration),
    /// No try is left.
    Never,
}

impl RetryPlan {
    /// No second try: the first failure makes a dead letter.
    pub fn never() -> Self {
        RetryPlan { immediate: 0, deferred: Vec::new() }
    }

    /// All tries of a message.
    pub fn tries(&self) -> u32 {
        self.in_place().saturating_add(u32::try_from(self.deferred.len()).unwrap_or(u32::MAX))
    }

    /// Tries in place, the first included.
    fn in_place(&self) -> u32 {
        self.immediate.saturating_add(1)
    }

    /// What follows when try number `failed` (from 1) has failed. `asked` is the delay that the handler asked for.
    pub fn after(&self, failed: u32, asked: Option<Duration>) -> NextTry {
        if failed >= self.tries() {
            return NextTry::Never;
        }
        match (asked, failed.checked_sub(self.in_place())) {
            (Some(delay), _) => NextTry::Deferred(delay),
            (None, None) => NextTry::InPlace(backoff(failed, Duration::from_millis(50), Duration::from_secs(5))),
            (None, Some(entry)) => NextTry::Deferred(self.deferred[entry as usize]),
        }
    }
}

/// Doubles from `first` up to `most`, and takes a random point of its upper half: those that failed together must not come back together.
pub(crate) fn backoff(round: u32, first: Duration, most: Duration) -> Duration {
    let whole = first.saturating_mul(1 << round.saturating_sub(1).min(16)).min(most);
    whole.mul_f64(0.5 + random() / 2.0)
}

/// A number from 0 to 1, from the random bits of a UUID: jitter needs no generator of its own.
fn random() -> f64 {
    f64::from(uuid::Uuid::now_v7().as_u128() as u32) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_plan_tries_seven_times() {
        let plan = RetryPlan::default();
        assert_eq!(plan.tries(), 7);
        for failed in 1..=3 {
            assert!(matches!(plan.after(failed, None), NextTry::InPlace(delay) if delay <= Duration::from_secs(5)));
        }
        assert_eq!(plan.after(4, None), NextTry::Deferred(Duration::from_secs(10)));
        assert_eq!(plan.after(6, None), NextTry::Deferred(Duration::from_secs(600)));
        assert_eq!(plan.after(7, None), NextTry::Never);
        assert_eq!(plan.after(1, Some(Duration::from_secs(7))), NextTry::Deferred(Duration::from_secs(7)));
        assert_eq!(plan.after(7, Some(Duration::ZERO)), NextTry::Never);
        assert_eq!(RetryPlan::never().after(1, None), NextTry::Never);
    }

    #[test]
    fn backoff_stays_between_half_and_whole() {
        for round in 1..40 {
            let delay = backoff(round, Duration::from_millis(50), Duration::from_secs(5));
            assert!(delay >= Duration::from_millis(25) && delay <= Duration::from_secs(5), "{delay:?}");
        }
    }
}
