//! A file, read piece by piece to its end, and followed beyond it.

use crate::error::{not_read, stopped};
use crate::follow::{self, Step};
use crate::input::{Change, Piece};
use crate::opened::Opened;
use crate::progress::Progress;
use semel_core::BrokerError;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::Instant;

/// How often a followed file is looked at when it has nothing new.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// A file that is being read.
pub(crate) struct Tail {
    path: PathBuf,
    follow: bool,
    file: Arc<File>,
    opened: Arc<Opened>,
    read_to: u64,
    progress: Arc<Progress>,
    /// The step that is being made. Kept here and not in the future, so that a dropped future loses nothing.
    step: Option<JoinHandle<io::Result<Step>>>,
    /// When to look again; set while the file has nothing new.
    look_at: Option<Instant>,
}

impl Tail {
    /// Reads `file` from `read_to` on.
    pub(crate) fn new(
        path: PathBuf,
        follow: bool,
        file: File,
        opened: Arc<Opened>,
        read_to: u64,
        progress: Arc<Progress>,
    ) -> Self {
        Tail { path, follow, file: Arc::new(file), opened, read_to, progress, step: None, look_at: None }
    }

    pub(crate) async fn read(&mut self) -> Result<Piece, BrokerError> {
        loop {
            if let Some(look_at) = self.look_at
                && self.step.is_none()
            {
                tokio::time::sleep_until(look_at).await;
            }
            match self.step().await? {
                Step::Bytes(bytes) => {
                    self.look_at = None;
                    self.opened.read(self.read_to, &bytes);
                    self.read_to += bytes.len() as u64;
                    self.progress.at_least(self.read_to);
                    return Ok(Piece::Bytes(bytes));
                }
                Step::AtEnd if !self.follow => return Ok(Piece::End),
                Step::AtEnd => self.look_at = Some(Instant::now() + LOOK_EVERY),
                Step::Replaced(file, opened, length) => {
                    self.file = Arc::new(file);
                    return Ok(self.another(opened, length, Change::Replaced));
                }
                Step::Rewritten(opened, length) => return Ok(self.another(opened, length, Change::Rewritten)),
            }
        }
    }

    fn another(&mut self, opened: Opened, length: u64, change: Change) -> Piece {
        self.opened = Arc::new(opened);
        self.read_to = 0;
        self.look_at = None;
        self.progress.begin(0, length);
        Piece::Another(self.opened.clone(), change)
    }

    async fn step(&mut self) -> Result<Step, BrokerError> {
        let step = match &mut self.step {
            Some(step) => step,
            none => {
                let (file, opened, path, read_to) =
                    (self.file.clone(), self.opened.clone(), self.path.clone(), self.read_to);
                let waited = self.follow.then_some(self.look_at.is_some());
                none.insert(spawn_blocking(move || match waited {
                    None => follow::read(&file, read_to),
                    Some(waited) => follow::follow(&file, &opened, &path, read_to, waited),
                }))
            }
        };
        let made = step.await;
        self.step = None;
        match made {
            Ok(step) => step.map_err(|error| not_read(&self.path, self.read_to, &error)),
            Err(_) => Err(stopped(&self.path)),
        }
    }
}
