//! What every reader of a part of the file shares: where the file lies, what was built, and the faults so far.

use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::store::StoreKind;
use super::{Built, Inputs};

/// Gathers the faults, so that all of them are shown at once.
pub(super) struct Context<'c> {
    file: &'c Path,
    base: &'c Path,
    text: &'c str,
    inputs: &'c Inputs<'c>,
    store_kind: Cell<Option<StoreKind>>,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'c> Context<'c> {
    pub(super) fn new(file: &'c Path, text: &'c str, inputs: &'c Inputs<'c>) -> Self {
        let base = file.parent().unwrap_or(Path::new(""));
        Self { file, base, text, inputs, store_kind: Cell::new(None), errors: RefCell::new(Vec::new()) }
    }

    pub(super) fn inputs(&self) -> &'c Inputs<'c> {
        self.inputs
    }

    /// The kind of the store, once its address was read without a fault.
    pub(super) fn store_kind(&self) -> Option<StoreKind> {
        self.store_kind.get()
    }

    pub(super) fn set_store_kind(&self, kind: StoreKind) {
        self.store_kind.set(Some(kind));
    }

    pub(super) fn built(&self) -> &'c Built {
        self.inputs.built
    }

    pub(super) fn file(&self) -> &'c Path {
        self.file
    }

    /// The directory that paths in the file are relative to.
    pub(super) fn base(&self) -> &'c Path {
        self.base
    }

    /// A path that was written in the file.
    pub(super) fn path(&self, written: &str) -> PathBuf {
        self.base.join(written)
    }

    /// The line of a byte offset, counted from 1.
    pub(super) fn line(&self, offset: usize) -> usize {
        place(self.text, offset).0
    }

    /// Keeps a fault of a key.
    pub(super) fn fail(&self, offset: Option<usize>, key: &str, message: impl Into<String>) {
        let line = offset.map(|offset| self.line(offset));
        self.keep(ConfigError::of_key(self.file, line, key, message));
    }

    /// Keeps a fault.
    pub(super) fn keep(&self, error: ConfigError) {
        self.errors.borrow_mut().push(error);
    }

    pub(super) fn into_errors(self) -> Vec<ConfigError> {
        self.errors.into_inner()
    }
}

/// Line and column of a byte offset, both counted from 1; the column counts characters.
pub(super) fn place(text: &str, offset: usize) -> (usize, usize) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let before = &text[..offset];
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_one_and_columns_count_characters() {
        let text = "a\nčaj = 1\r\n";
        assert_eq!(place(text, 0), (1, 1));
        assert_eq!(place(text, text.find("= 1").unwrap()), (2, 5));
        assert_eq!(place(text, 3), (2, 1), "inside of a character");
        assert_eq!(place(text, 1_000), (3, 1));
        assert_eq!(place("", 0), (1, 1));
    }
}
