//! Which file this is: not its name, which may come to mean another file, but where it lies and how it begins.

use semel_core::BodyDigest;
use serde::{Deserialize, Serialize};
use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};

/// How much of the beginning is remembered, in bytes.
const HEAD_LENGTH_MAX: usize = 256;

/// A file that is being read.
///
/// An inode number is used again after its file was removed, and a file can be truncated and written anew in place; the digest of its
/// beginning tells these from the file that was read.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Where it lies.
    pub(crate) place: Place,
    /// The first bytes, as far as they have been read, up to 256.
    head: Mutex<Vec<u8>>,
}

/// Device and inode number. Both 0 on systems without them: the beginning alone then tells the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    device: u64,
    inode: u64,
}

/// The digest of the beginning, and of how many bytes it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    length: u16,
    digest: String,
}

impl Opened {
    /// The file `file`, of which `read_to` bytes have been read before.
    pub(crate) fn new(file: &File, metadata: &Metadata, read_to: u64) -> io::Result<Self> {
        let length = read_to.min(HEAD_LENGTH_MAX as u64) as usize;
        Ok(Opened { place: Place::of(metadata), head: Mutex::new(read_at(file, 0, length)?) })
    }

    /// The bytes at `offset` have been read; all before them were.
    pub(crate) fn read(&self, offset: u64, bytes: &[u8]) {
        if offset < HEAD_LENGTH_MAX as u64 {
            let mut head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
            if offset == head.len() as u64 {
                let room = HEAD_LENGTH_MAX - head.len();
                head.extend_from_slice(&bytes[..room.min(bytes.len())]);
            }
        }
    }

    /// The beginning, of which no more counts than the first `offset` bytes: a position depends on what lies before it alone.
    pub(crate) fn head(&self, offset: u64) -> Head {
        let head = self.head.lock().unwrap_or_else(PoisonError::into_inner);
        Head::of(&head[..head.len().min(usize::try_from(offset).unwrap_or(usize::MAX))])
    }

    /// Whether `file` still begins with what was read of it.
    pub(crate) fn begins(&self, file: &File) -> io::Result<bool> {
        let head = self.head.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(read_at(file, 0, head.len())? == head)
    }
}

impl Place {
    #[cfg(unix)]
    pub(crate) fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt;
        Place { device: metadata.dev(), inode: metadata.ino() }
    }
    #[cfg(not(unix))]
    pub(crate) fn of(_: &Metadata) -> Self {
        Place { device: 0, inode: 0 }
    }
}

impl Head {
    fn of(bytes: &[u8]) -> Self {
        let mut digest = BodyDigest::default();
        digest.update(bytes);
        let digest = digest.finish().iter().map(|byte| format!("{byte:02x}")).collect();
        Head { length: bytes.len() as u16, digest }
    }

    /// Whether `file` begins like this.
    pub(crate) fn begins(&self, file: &File) -> io::Result<bool> {
        Ok(Head::of(&read_at(file, 0, self.length.into())?) == *self)
    }
}

/// Up to `length` bytes at `offset`; fewer only at the end of the file. Moves the file's cursor, so one thread at a time.
pub(crate) fn read_at(mut file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(length);
    file.seek(SeekFrom::Start(offset))?;
    file.take(length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
