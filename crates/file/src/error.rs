//! What the system says of a file, as a sentence with its path.

use semel_core::BrokerError;
use std::io::{self, ErrorKind};
use std::path::Path;

/// A file that could not be opened. What will fail again in the same way is `Broken`; the rest (too many open files, a network file system
/// that does not answer) is worth another try.
pub(crate) fn not_opened(path: &Path, error: &io::Error) -> BrokerError {
    let path = path.display();
    match error.kind() {
        ErrorKind::NotFound => BrokerError::Broken(format!("{path} does not exist")),
        ErrorKind::PermissionDenied => BrokerError::Broken(format!("no permission to read {path}")),
        ErrorKind::NotADirectory | ErrorKind::InvalidInput | ErrorKind::InvalidFilename => {
            BrokerError::Broken(format!("{path} is no path of a file: {error}"))
        }
        _ => BrokerError::Unreachable(format!("{path} cannot be opened: {error}")),
    }
}

/// The path names something that cannot be read line by line.
pub(crate) fn not_a_file(path: &Path, what: &str) -> BrokerError {
    BrokerError::Broken(format!("{} is {what}; it must be a file of JSON Lines", path.display()))
}

/// A file that stopped being readable. Nothing is lost: reading goes on where it was.
pub(crate) fn not_read(path: &Path, offset: u64, error: &io::Error) -> BrokerError {
    BrokerError::Unreachable(format!("{} cannot be read at byte {offset}: {error}", path.display()))
}

/// A stream that stopped being readable. What it held is gone.
pub(crate) fn stream_not_read(name: &str, error: &io::Error) -> BrokerError {
    BrokerError::Broken(format!("{name} cannot be read: {error}"))
}

/// A stream that was read before.
pub(crate) fn read_once(name: &str) -> BrokerError {
    BrokerError::Broken(format!("{name} can be read only once: what was read of it cannot be read again"))
}

/// A stream that was to be followed.
pub(crate) fn not_followed(path: &Path) -> BrokerError {
    BrokerError::Broken(format!(
        "{} is a pipe: it is read to its end and cannot be followed (follow = true)",
        path.display()
    ))
}

/// The blocking task that did the work is gone: the runtime is shutting down.
pub(crate) fn stopped(path: &Path) -> BrokerError {
    BrokerError::Unreachable(format!("reading {} was stopped", path.display()))
}
