//! Opening a path: what stands there, and where in it to begin.

use crate::error::{not_a_file, not_opened, not_read};
use crate::opened::Opened;
use crate::position::{Found, Position};
use semel_core::BrokerError;
use std::fs::{self, File, FileType};
use std::path::Path;

/// What stood at a path.
pub(crate) enum Standing {
    /// A file, and where to begin.
    File { file: File, opened: Opened, length: u64, from: From },
    /// A FIFO, a terminal: something to be read once, from where it is. Not opened yet, because that waits for a writer.
    Stream,
}

/// Where to begin.
pub(crate) enum From {
    Beginning,
    At(Position),
    /// At the beginning, though there was a stored position; why.
    Anew(Found),
}

/// Opens `path`. Blocking. `stored` is the text of a position.
pub(crate) fn open(path: &Path, stored: Option<&str>) -> Result<Standing, BrokerError> {
    let kind = fs::metadata(path).map_err(|error| not_opened(path, &error))?.file_type();
    if is_stream(kind) {
        return Ok(Standing::Stream);
    }
    if kind.is_dir() {
        return Err(not_a_file(path, "a directory"));
    }
    if !kind.is_file() {
        return Err(not_a_file(path, "a device or a socket"));
    }
    let file = File::open(path).map_err(|error| not_opened(path, &error))?;
    let begin = |file: &File| {
        let metadata = file.metadata()?;
        let from = match stored.map(|text| Position::find(text, file, &metadata)).transpose()? {
            None => From::Beginning,
            Some(Found::Same(position)) => From::At(position),
            Some(otherwise) => From::Anew(otherwise),
        };
        let read_to = if let From::At(position) = &from { position.resume_at() } else { 0 };
        Ok((Opened::new(file, &metadata, read_to)?, metadata.len(), from))
    };
    let (opened, length, from) = begin(&file).map_err(|error| not_read(path, 0, &error))?;
    Ok(Standing::File { file, opened, length, from })
}

#[cfg(unix)]
fn is_stream(kind: FileType) -> bool {
    use std::os::unix::fs::FileTypeExt;
    kind.is_fifo() || kind.is_char_device()
}

#[cfg(not(unix))]
fn is_stream(_: FileType) -> bool {
    false
}
