//! Named points at which tests kill this process, and planted bugs that the tests must catch. Compiled in only with the feature `probes`;
//! otherwise both functions are empty.
//!
//! `SEMEL_CRASH_AT=after-commit:3` aborts at the third time that the loop reaches the point; `SEMEL_PLANT=ack-before-commit` plants a bug.

/// Every point of the loop, in the order of a message's way.
pub const POINTS: [&str; 14] = [
    "before-claim",
    "after-claim",
    "after-handle",
    "before-commit",
    "after-commit",
    "before-ack",
    "after-ack",
    "attempt-open",
    "before-defer",
    "after-defer",
    "before-bury",
    "after-bury",
    "before-position",
    "after-position",
];

/// Every bug that can be planted. Each breaks a law, and each must make a test fail.
pub const BUGS: [&str; 4] = ["ack-before-commit", "claim-elsewhere", "no-proof", "defer-without-claim"];

#[cfg(feature = "probes")]
mod live {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    static CRASH_AT: LazyLock<Option<(String, u32)>> = LazyLock::new(|| {
        let text = std::env::var("SEMEL_CRASH_AT").ok()?;
        let (name, count) = text.split_once(':').unwrap_or((&text, "1"));
        assert!(super::POINTS.contains(&name), "SEMEL_CRASH_AT: there is no point {name:?}");
        Some((name.to_owned(), count.parse().expect("SEMEL_CRASH_AT=POINT:COUNT")))
    });
    static PLANTED: LazyLock<Option<String>> = LazyLock::new(|| {
        let bug = std::env::var("SEMEL_PLANT").ok()?;
        assert!(super::BUGS.contains(&&*bug), "SEMEL_PLANT: there is no bug {bug:?}");
        Some(bug)
    });

    pub(crate) fn point(name: &str) {
        static REACHED: AtomicU32 = AtomicU32::new(0);
        debug_assert!(super::POINTS.contains(&name));
        if let Some((at, count)) = &*CRASH_AT
            && at == name
            && REACHED.fetch_add(1, Ordering::SeqCst) + 1 == *count
        {
            eprintln!("crash point {name}");
            std::process::abort();
        }
    }

    /// Whether this bug is planted.
    pub fn planted(bug: &str) -> bool {
        PLANTED.as_deref() == Some(bug)
    }
}

#[cfg(not(feature = "probes"))]
mod live {
    #[inline(always)]
    pub(crate) fn point(_name: &str) {}

    /// Whether this bug is planted: never, in a build without probes.
    #[inline(always)]
    pub fn planted(_bug: &str) -> bool {
        false
    }
}

pub use live::planted;
pub(crate) use live::point;
