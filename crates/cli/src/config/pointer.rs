//! JSON pointers (RFC 6901).

use std::fmt;

/// Pointers are not longer.
const POINTER_BYTES_MAX: usize = 1024;

/// A JSON pointer such as `/order/id`: it begins with `/`, and `~` stands in it only as `~0` (for `~`) or `~1` (for
/// `/`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer(String);

impl Pointer {
    /// The error says which rule the text breaks.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let escapes_well = text.split('~').skip(1).all(|after| after.starts_with(['0', '1']));
        if text.len() > POINTER_BYTES_MAX {
            Err(format!("a JSON pointer has at most {POINTER_BYTES_MAX} bytes"))
        } else if !text.starts_with('/') {
            Err("a JSON pointer begins with \"/\"".into())
        } else if !escapes_well {
            Err("in a JSON pointer \"~\" is written \"~0\", and a \"/\" inside of a name \"~1\"".into())
        } else {
            Ok(Self(text.into()))
        }
    }

    /// The pointer as it was written.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_begin_with_a_slash_and_escape_with_0_and_1() {
        for good in ["/", "/a", "/a/0/b", "/a~0b~1c", "//", "/ü", "/~01"] {
            assert_eq!(Pointer::parse(good).unwrap().as_str(), good);
        }
        for bad in ["", "a", "a/b", "/~", "/a~", "/~2", "/~~0", " /a"] {
            assert!(Pointer::parse(bad).is_err(), "{bad:?}");
        }
    }
}
