//! What a person should know of a source, though nothing is wrong.

use std::fmt;

/// Something about a file that a person should know. Its `Display` is a sentence for standard error. Each carries the source's name.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notice {
    /// Another file stands at the path than the one that was read before: it is read from its beginning.
    Replaced {
        /// The source.
        name: String,
    },
    /// The file is shorter than what was read of it before, or begins otherwise: it is read from its beginning.
    Rewritten {
        /// The source.
        name: String,
    },
    /// The stored position is none that this version can read: the file is read from its beginning.
    UnknownPosition {
        /// The source.
        name: String,
    },
    /// The last line was read before it was complete. It has grown since, and is delivered again, as a whole.
    LineGrew {
        /// The source.
        name: String,
        /// The number of the line.
        line: u64,
    },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Replaced { name } => write!(f, "{name} was replaced; reading it from its beginning"),
            Notice::Rewritten { name } => {
                write!(f, "{name} was cut short or written anew; reading it from its beginning")
            }
            Notice::UnknownPosition { name } => {
                write!(f, "the stored position of {name} cannot be read; reading it from its beginning")
            }
            Notice::LineGrew { name, line } => {
                write!(f, "line {line} of {name} has grown since it was read; reading it again")
            }
        }
    }
}
