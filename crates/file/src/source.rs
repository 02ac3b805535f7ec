//! The description of a source: which file, under which name, how to read it.

use crate::error::{not_followed, read_once, stopped};
use crate::input::Input;
use crate::notice::Notice;
use crate::open::{From, Standing, open};
use crate::pipe::Pipe;
use crate::position::Found;
use crate::progress::Progress;
use crate::subscription::{FileSubscription, Listener, Told, stored};
use crate::tail::Tail;
use semel_core::{BrokerError, Features, Positions, Redelivery, Source};
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest line that is delivered whole, unless [`FileSource::line_length_max`] says otherwise: 1 MiB.
const LINE_LENGTH_MAX: u64 = 1024 * 1024;

/// A file of JSON Lines: every line is the body of one message.
///
/// The file is opened by [`subscribe`](Source::subscribe), and it is an error ([`BrokerError::Broken`]) if it does not exist then. What a
/// line is, and what happens when the file grows, is cut short or is replaced, stands in the [crate's documentation](crate).
#[derive(Clone)]
pub struct FileSource {
    place: Place,
    name: String,
    follow: bool,
    from_start: bool,
    line_length_max: u64,
    listener: Option<Listener>,
    progress: Arc<Progress>,
    /// A stream can be read only once.
    stream_taken: Arc<AtomicBool>,
}

#[derive(Debug, Clone)]
enum Place {
    Path(PathBuf),
    Stdin,
}

impl FileSource {
    pub(crate) fn at(path: PathBuf) -> Self {
        let name = path.display().to_string();
        FileSource::new(Place::Path(path), name)
    }

    pub(crate) fn stdin() -> Self {
        FileSource::new(Place::Stdin, "stdin".to_owned())
    }

    fn new(place: Place, name: String) -> Self {
        FileSource {
            place,
            name,
            follow: false,
            from_start: false,
            line_length_max: LINE_LENGTH_MAX,
            listener: None,
            progress: Arc::default(),
            stream_taken: Arc::default(),
        }
    }

    /// Whether to wait for more at the end of the file instead of ending there, and to go on with the file that replaces it (log rotation).
    /// The file is looked at every 200 ms. Default: no. Standard input always ends.
    pub fn follow(mut self, follow: bool) -> Self {
        self.follow = follow;
        self
    }

    /// Whether to read from the first line, whatever position was stored. Default: no. Lines that were processed before are duplicates.
    pub fn from_start(mut self, from_start: bool) -> Self {
        self.from_start = from_start;
        self
    }

    /// The longest line that is delivered whole, in bytes. Default: 1 MiB. Of a longer one the first 64 KiB are kept, with the length and the
    /// digest of all of it ([`Envelope::cut`](semel_core::Envelope::cut)).
    pub fn line_length_max(mut self, bytes: u64) -> Self {
        self.line_length_max = bytes;
        self
    }

    /// The source's name: it stands in coordinates (`NAME:LINE`), and positions are stored under it. Default: the path as given, `stdin`
    /// for standard input. Another name is another source, and starts at the first line.
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Calls `listener` with what a person should know, such as "payments.jsonl was replaced; reading it from its beginning". Each notice is
    /// given once, while subscribing or from [`next`](semel_core::Subscription::next); the listener must not block.
    pub fn notice(mut self, listener: impl Fn(&Notice) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }

    /// How far the file has been read; may be asked for before it is opened.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    fn told(&self) -> Told {
        Told {
            name: self.name.clone(),
            line_length_max: self.line_length_max,
            listener: self.listener.clone(),
            progress: self.progress.clone(),
        }
    }

    async fn subscribe_to_path(&self, path: &Path, stored: Option<&str>) -> Result<FileSubscription, BrokerError> {
        let (opening, stored) = (path.to_owned(), stored.map(str::to_owned));
        let standing = tokio::task::spawn_blocking(move || open(&opening, stored.as_deref())).await;
        let (file, opened, length, from) = match standing.map_err(|_| stopped(path))?? {
            Standing::File { file, opened, length, from } => (file, Arc::new(opened), length, from),
            Standing::Stream if self.follow => return Err(not_followed(path)),
            Standing::Stream => {
                let path = path.to_owned();
                return self.subscribe_to_stream(|| File::open(path));
            }
        };
        let told = self.told();
        let position = match from {
            From::Beginning => None,
            From::At(position) => Some(position),
            From::Anew(why) => {
                told.say(why_anew(why, told.name.clone()));
                None
            }
        };
        let read_to = position.as_ref().map_or(0, |position| position.resume_at());
        self.progress.begin(read_to, length);
        let tail = Tail::new(path.to_owned(), self.follow, file, opened.clone(), read_to, self.progress.clone());
        Ok(FileSubscription::new(told, Input::File(tail), Some(opened), position))
    }

    fn subscribe_to_stream<R: io::Read>(
        &self,
        open: impl FnOnce() -> io::Result<R> + Send + 'static,
    ) -> Result<FileSubscription, BrokerError> {
        if self.stream_taken.swap(true, Ordering::Relaxed) {
            return Err(read_once(&self.name));
        }
        self.progress.begin(0, 0);
        let pipe = Pipe::start(&self.name, open)?;
        Ok(FileSubscription::new(self.told(), Input::Stream(pipe), None, None))
    }
}

fn why_anew(why: Found, name: String) -> Notice {
    match why {
        Found::Replaced => Notice::Replaced { name },
        Found::Same(_) | Found::Rewritten => Notice::Rewritten { name },
        Found::Unknown => Notice::UnknownPosition { name },
    }
}

impl Source for FileSource {
    type Subscription = FileSubscription;

    fn name(&self) -> String {
        self.name.clone()
    }

    fn features(&self) -> Features {
        let ends = matches!(self.place, Place::Stdin) || !self.follow;
        Features { ends, redelivery: Redelivery::ByPosition }
    }

    async fn subscribe(&self, positions: &Positions) -> Result<FileSubscription, BrokerError> {
        let stored = stored(positions).filter(|_| !self.from_start);
        match &self.place {
            Place::Path(path) => self.subscribe_to_path(path, stored).await,
            Place::Stdin => self.subscribe_to_stream(|| Ok(io::stdin())),
        }
    }
}

impl fmt::Debug for FileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileSource").field("place", &self.place).field("name", &self.name).finish_non_exhaustive()
    }
}
