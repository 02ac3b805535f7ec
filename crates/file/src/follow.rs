//! One step of reading a file: bytes, or what happened to the file meanwhile. Blocking, without a memory of its own.

use crate::opened::{Opened, Place, read_at};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;

/// How much is read at once.
const PIECE_LENGTH: usize = 256 * 1024;

/// What one look at the file found.
pub(crate) enum Step {
    /// Bytes, never none.
    Bytes(Vec<u8>),
    /// Nothing behind what was read.
    AtEnd,
    /// Another file stands at the path, with so many bytes; the old one was read to its end.
    Replaced(File, Opened, u64),
    /// The file was truncated, and has so many bytes now.
    Rewritten(Opened, u64),
}

/// Reads on, or is at the end.
pub(crate) fn read(file: &File, read_to: u64) -> io::Result<Step> {
    let bytes = read_at(file, read_to, PIECE_LENGTH)?;
    Ok(if bytes.is_empty() { Step::AtEnd } else { Step::Bytes(bytes) })
}

/// Reads on, or finds out whether the file at `path` is still this one. `waited`: the last step was at the end, so that between then and
/// now the file may have been truncated and filled again.
///
/// A rotation renames the file and begins a new one, and the writer may go on with the old one for a moment. So the new file counts only
/// once there is something in it, and the old one is looked at once more after that: a writer that has moved on writes no more there.
/// (Several writers that do not move on together can still lose lines at a rotation, as with `tail -F`.)
pub(crate) fn follow(file: &File, opened: &Opened, path: &Path, read_to: u64, waited: bool) -> io::Result<Step> {
    if waited && !(file.metadata()?.len() >= read_to && opened.begins(file)?) {
        return rewritten(file);
    }
    let first = read(file, read_to)?;
    if !matches!(first, Step::AtEnd) {
        return Ok(first);
    }
    if file.metadata()?.len() < read_to {
        return rewritten(file);
    }
    let Some(place) = standing_at(path)?.filter(|place| *place != opened.place) else { return Ok(Step::AtEnd) };
    match read(file, read_to)? {
        Step::AtEnd => replaced(path, place),
        bytes => Ok(bytes),
    }
}

fn rewritten(file: &File) -> io::Result<Step> {
    let metadata = file.metadata()?;
    Ok(Step::Rewritten(Opened::new(file, &metadata, 0)?, metadata.len()))
}

/// The file at the path, if there is one with something in it. Between rename and new file there is none for a moment.
fn standing_at(path: &Path) -> io::Result<Option<Place>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok((metadata.is_file() && metadata.len() > 0).then(|| Place::of(&metadata))),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn replaced(path: &Path, place: Place) -> io::Result<Step> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Step::AtEnd),
        Err(error) => return Err(error),
    };
    let metadata = file.metadata()?;
    if Place::of(&metadata) != place {
        // Rotated again, just now: the next look sees where that ended.
        return Ok(Step::AtEnd);
    }
    let opened = Opened::new(&file, &metadata, 0)?;
    Ok(Step::Replaced(file, opened, metadata.len()))
}
