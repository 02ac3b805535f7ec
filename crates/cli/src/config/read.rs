//! From a path to a parsed file: what can be wrong before any key is looked at.

use std::io;
use std::path::Path;

use toml::Spanned;
use toml::de::DeTable;

use super::context::place;
use super::error::{ConfigError, ConfigErrors};
use super::script::read_limited;
use super::text::{self, NotText};

/// Configuration files are not larger.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Faults of the syntax that are shown at once; later ones are mostly echoes of the first.
const SYNTAX_ERRORS_MAX: usize = 10;

/// The text of the file, without a byte order mark.
pub(super) fn text(path: &Path) -> Result<String, ConfigError> {
    let of_file = |message: String| ConfigError::of_file(path, message);
    if path.is_dir() {
        return Err(of_file("is a directory; name the file in it, such as -f semel.toml".into()));
    }
    let bytes = read_limited(path, FILE_BYTES_MAX).map_err(|error| {
        of_file(match error.kind() {
            io::ErrorKind::NotFound => {
                "no such file; name another with -f FILE (`semel run FILE`), or make one: the default is semel.toml \
                                        in the working directory"
                    .into()
            }
            io::ErrorKind::PermissionDenied => "may not be read: permission denied; let this user read it".into(),
            _ => format!("cannot be read: {error}"),
        })
    })?;
    let bytes =
        bytes.ok_or_else(|| of_file(format!("is larger than {}MiB; is it the right file?", FILE_BYTES_MAX >> 20)))?;
    let is_utf_16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    text::from_bytes(bytes).map_err(|NotText { line }| {
        of_file(if is_utf_16 {
            "is UTF-16 text; save it as UTF-8".into()
        } else {
            format!("is not UTF-8 text: the first wrong byte is in line {line}; save it as UTF-8")
        })
    })
}

/// The tree of the file. The errors say where and what, and do not repeat the line.
pub(super) fn tree<'t>(path: &Path, text: &'t str) -> Result<Spanned<DeTable<'t>>, ConfigErrors> {
    let (tree, errors) = DeTable::parse_recoverable(text);
    let mut faults: Vec<ConfigError> = Vec::new();
    for error in errors {
        let span = error.span().unwrap_or_default();
        let (line, column) = place(text, span.start);
        if faults.last().is_some_and(|last| last.line() == Some(line)) {
            continue;
        }
        faults.push(ConfigError::of_place(path, line, column, sentence(error.message())));
    }
    if faults.is_empty() {
        return Ok(tree);
    }
    faults.truncate(SYNTAX_ERRORS_MAX);
    Err(ConfigErrors::new(faults))
}

/// The parser's own words, which hold nothing of the file, except where plainer ones are known.
fn sentence(message: &str) -> String {
    match message {
        "duplicate key" => "this key or table is in the file twice; keep one of the two".into(),
        "string values must be quoted, expected literal string" => {
            "not valid TOML: a text is written in quotes, such as store = \"sqlite:app.db\"".into()
        }
        _ if message.starts_with("invalid basic string, expected `\"`") => {
            "not valid TOML: a text that begins with \" ends with \" on the same line".into()
        }
        _ => format!("not valid TOML: {message}"),
    }
}
