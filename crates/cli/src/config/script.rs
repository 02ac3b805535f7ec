//! SQL in files: `setup` and `sql = { file = … }`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::ConfigError;
use super::store::StoreKind;
use super::text::{self, NotText};
use super::tree::{Node, Parsed};

/// Files of SQL are not larger.
const SCRIPT_BYTES_MAX: u64 = 16 << 20;

/// A file of SQL that the configuration names, with its variants for single stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SqlFile {
    path: PathBuf,
    named_in: PathBuf,
    line: usize,
    key: String,
}

impl SqlFile {
    /// A file that is not there for the store is kept as a fault, where the store is known.
    pub(super) fn parse(node: &Node<'_>) -> Parsed<Self> {
        let written = text::path(node, "schema.sql")?;
        let file = Self {
            path: node.context.path(written),
            named_in: node.context.file().to_owned(),
            line: node.line(),
            key: node.path().to_owned(),
        };
        if let Some(Err(error)) = node.context.store_kind().map(|store| file.resolve(store)) {
            node.context.keep(error);
        }
        Ok(file)
    }

    /// The path for one kind of store: `schema.postgres.sql` wins over `schema.sql` where it exists.
    ///
    /// An error where neither is there, where it is a directory, or where it cannot be looked at.
    pub(crate) fn resolve(&self, store: StoreKind) -> Result<PathBuf, ConfigError> {
        let variant = self.variant(store);
        for path in [&variant, &self.path] {
            match fs::metadata(path) {
                Ok(found) if found.is_dir() => {
                    return Err(self.error(format!("{} is a directory; name a file of SQL", path.display())));
                }
                Ok(_) => return Ok(path.clone()),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.error(format!("{} cannot be read: {error}", path.display()))),
            }
        }
        Err(self.error(format!("no such file; tried {} and {}", variant.display(), self.path.display())))
    }

    /// The text of the file for one kind of store, without a byte order mark. An error also where it holds nothing.
    pub(crate) fn read(&self, store: StoreKind) -> Result<String, ConfigError> {
        let path = self.resolve(store)?;
        let bytes = read_limited(&path, SCRIPT_BYTES_MAX)
            .map_err(|error| self.error(format!("{} cannot be read: {error}", path.display())))?
            .ok_or_else(|| self.error(format!("{} is larger than {}MiB", path.display(), SCRIPT_BYTES_MAX >> 20)))?;
        let text = text::from_bytes(bytes).map_err(|NotText { line }| {
            self.error(format!("{} is not UTF-8 text (line {line}); save it as UTF-8", path.display()))
        })?;
        if text.trim().is_empty() {
            return Err(self.error(format!("{} is empty; write a statement into it", path.display())));
        }
        Ok(text)
    }

    fn variant(&self, store: StoreKind) -> PathBuf {
        let extension = match self.path.extension() {
            Some(extension) => format!("{}.{}", store.name(), extension.display()),
            None => store.name().into(),
        };
        self.path.with_extension(extension)
    }

    fn error(&self, message: String) -> ConfigError {
        ConfigError::of_key(&self.named_in, Some(self.line), &self.key, message)
    }
}

/// The bytes of a file; `None` where there are more than `most`.
pub(super) fn read_limited(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= most).then_some(bytes))
}

/// `setup = ["schema.sql"]`
pub(super) fn setup(node: &Node<'_>) -> Option<Vec<SqlFile>> {
    let Some(items) = node.items() else {
        node.fail(node.mismatch("a list of files such as [\"schema.sql\"]"));
        return None;
    };
    let files: Vec<Option<SqlFile>> = items.iter().map(|item| item.read(SqlFile::parse)).collect();
    files.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::Directory;

    #[test]
    fn the_variant_of_the_store_wins_and_a_missing_file_names_what_was_tried() {
        let directory = Directory::new();
        let file = |name: &str| SqlFile {
            path: directory.path().join(name),
            named_in: "semel.toml".into(),
            line: 2,
            key: "setup[0]".into(),
        };
        directory.write("schema.sql", "create table t (id text)");
        directory.write("schema.postgres.sql", "\u{feff}create table t (id text collate \"C\")");
        directory.write("plain", "select 1");
        directory.write("plain.mysql", " \n");
        directory.write("folder.sql/inside", "");

        assert_eq!(file("schema.sql").resolve(StoreKind::Sqlite), Ok(directory.path().join("schema.sql")));
        assert_eq!(file("schema.sql").resolve(StoreKind::Postgres), Ok(directory.path().join("schema.postgres.sql")));
        assert!(file("schema.sql").read(StoreKind::Postgres).unwrap().starts_with("create"));
        assert_eq!(file("plain").resolve(StoreKind::Postgres), Ok(directory.path().join("plain")));
        assert!(
            file("plain")
                .read(StoreKind::Mysql)
                .unwrap_err()
                .to_string()
                .ends_with("plain.mysql is empty; write a statement into it")
        );
        assert!(file("folder.sql").resolve(StoreKind::Mysql).unwrap_err().to_string().contains("is a directory"));
        let base = directory.path().display();
        assert_eq!(
            file("v2/none.sql").resolve(StoreKind::Sqlite).unwrap_err().to_string(),
            format!("semel.toml:2: setup[0]: no such file; tried {base}/v2/none.sqlite.sql and {base}/v2/none.sql"),
        );
    }
}
