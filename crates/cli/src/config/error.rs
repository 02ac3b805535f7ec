//! What is wrong with a configuration file, and where.

use std::fmt;
use std::path::{Path, PathBuf};

/// One fault of a configuration file.
///
/// Its text is `FILE:LINE: KEY: what is wrong and what would be right`, on one line. It never holds an address, a
/// secret or a line of the file, so it may go to a log as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigError {
    file: PathBuf,
    line: Option<usize>,
    column: Option<usize>,
    key: Option<String>,
    message: String,
}

impl ConfigError {
    /// A fault of the file as a whole.
    pub(super) fn of_file(file: &Path, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, column: None, key: None, message: message.into() }
    }

    /// A fault of one key; `line` counts from 1.
    pub(super) fn of_key(file: &Path, line: Option<usize>, key: &str, message: impl Into<String>) -> Self {
        Self { line, key: Some(key.to_owned()), ..Self::of_file(file, message) }
    }

    /// A fault of the text before any key is known; `line` and `column` count from 1.
    pub(super) fn of_place(file: &Path, line: usize, column: usize, message: impl Into<String>) -> Self {
        Self { line: Some(line), column: Some(column), ..Self::of_file(file, message) }
    }

    /// The line in the file, counted from 1, where there is one.
    pub(super) fn line(&self) -> Option<usize> {
        self.line
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ": {key}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for ConfigError {}

/// All faults that were found in one file, in the order of its lines. Never empty.
///
/// `Display` writes one a line, without a line end after the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Sorts the faults by line. Faults without a line come first.
    pub(super) fn new(mut errors: Vec<ConfigError>) -> Self {
        assert!(!errors.is_empty(), "a list of faults holds at least one");
        errors.sort_by_key(ConfigError::line);
        Self(errors)
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self(vec![error])
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, error) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}
