//! Tests that acknowledge: they go below `Delivery`, because only core can make a permit.

mod answering;
mod following;
mod losing;
mod reading;
mod resuming;
mod speed;

use crate::subscription::Pulled;
use crate::{FileSource, FileSubscription, Notice, source};
use semel_core::{Envelope, Positions, Source, Subscription};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A file in a directory of its own, and what was noticed about it.
struct Place {
    _directory: TempDir,
    path: PathBuf,
    notices: Arc<Mutex<Vec<Notice>>>,
}

/// A line that was delivered: its coordinates and its body.
type Seen = (String, String);

impl Place {
    fn with(bytes: impl AsRef<[u8]>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let place = Place { path: directory.path().join("in.jsonl"), _directory: directory, notices: Arc::default() };
        place.create(bytes);
        place
    }

    fn create(&self, bytes: impl AsRef<[u8]>) {
        let mut file = File::create_new(&self.path).unwrap();
        file.write_all(bytes.as_ref()).unwrap();
    }

    fn append(&self, bytes: impl AsRef<[u8]>) {
        self.opened().write_all(bytes.as_ref()).unwrap();
    }

    /// The file as a writer has it open.
    fn opened(&self) -> File {
        OpenOptions::new().append(true).open(&self.path).unwrap()
    }

    fn rotate(&self) {
        std::fs::rename(&self.path, self.path.with_extension("1")).unwrap();
    }

    fn source(&self) -> FileSource {
        let notices = self.notices.clone();
        source(&self.path).named("in").notice(move |notice| notices.lock().unwrap().push(notice.clone()))
    }

    fn notices(&self) -> Vec<Notice> {
        std::mem::take(&mut self.notices.lock().unwrap())
    }

    /// One run from `positions` to the end that acknowledges everything. Answers what it saw and where it ended.
    async fn run(&self, positions: &Positions) -> (Vec<Seen>, Positions) {
        let mut subscription = self.source().subscribe(positions).await.unwrap();
        let seen = acknowledge_all(&mut subscription).await;
        (seen, subscription.positions())
    }
}

fn seen(envelope: &Envelope) -> Seen {
    (envelope.coordinates.clone().unwrap(), String::from_utf8_lossy(&envelope.body).into_owned())
}

fn line(number: u64, body: &str) -> Seen {
    (format!("in:{number}"), body.to_owned())
}

/// Reads to the end.
async fn acknowledge_all(subscription: &mut FileSubscription) -> Vec<Seen> {
    let mut all = Vec::new();
    loop {
        let batch = acknowledge_next(subscription).await;
        if batch.is_empty() {
            return all;
        }
        all.extend(batch);
    }
}

async fn acknowledge_next(subscription: &mut FileSubscription) -> Vec<Seen> {
    subscription.pull(100).await.unwrap().into_iter().map(acknowledge).collect()
}

fn acknowledge(pulled: Pulled) -> Seen {
    pulled.settle.acknowledge();
    seen(&pulled.envelope)
}
