//! How far a source has been read, for a progress bar.

use std::sync::atomic::{AtomicU64, Ordering};

/// How far a source has been read, in bytes. May be looked at from any thread at any time.
#[derive(Debug, Default)]
pub struct Progress {
    read: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Up to where lines were delivered, from the beginning of the file. A reader that goes on from a stored position starts there, and one
    /// that goes on with a new file (after a rotation) starts anew.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The size of the file as far as it is known; it may grow. 0 where nobody can know: standard input, a pipe.
    pub fn bytes_total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self, read: u64, total: u64) {
        self.read.store(read, Ordering::Relaxed);
        self.total.store(total, Ordering::Relaxed);
    }

    pub(crate) fn read_to(&self, offset: u64) {
        self.read.store(offset, Ordering::Relaxed);
    }

    pub(crate) fn at_least(&self, total: u64) {
        self.total.fetch_max(total, Ordering::Relaxed);
    }
}
