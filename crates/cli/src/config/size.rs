//! Sizes such as `"1MiB"`.

use super::tree::{Node, Parsed, shown};

const UNITS: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("B", 1),
];

/// Reads `"64KiB"`, `"1MiB"`, `"1MB"`, `"512B"`: bytes, in units of 1024 (`i`) or of 1000. Capitals do not matter.
fn parse(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let (_, bytes) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.parse::<u64>().ok()?.checked_mul(*bytes)
}

/// A size in bytes from 1 to `most`: text with a unit, or a plain integer in bytes.
pub(super) fn size(node: &Node<'_>, most: u64, example: &str) -> Parsed<u64> {
    let expected = format!("a size such as \"{example}\", \"64KiB\" or \"1MB\", or an integer in bytes");
    let (bytes, found) = match (node.as_integer(), node.as_text()) {
        (Some(integer), _) => (u64::try_from(integer).unwrap_or(0), integer.to_string()),
        (None, Some(text)) => {
            let bytes = parse(text).ok_or_else(|| format!("expected {expected}, found {}", shown(text)))?;
            (bytes, shown(text))
        }
        (None, None) => return Err(node.mismatch(&expected)),
    };
    if bytes == 0 || bytes > most {
        return Err(format!("expected 1 byte to {}MiB, such as \"{example}\", found {found}", most >> 20));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_need_units_and_the_letter_i_means_1024() {
        for (text, bytes) in [
            ("64KiB", Some(65_536)),
            ("1MiB", Some(1_048_576)),
            ("1MB", Some(1_000_000)),
            ("1mb", Some(1_000_000)),
            ("2GiB", Some(2_147_483_648)),
            ("512B", Some(512)),
            ("0B", Some(0)),
            ("512", None),
            ("MiB", None),
            ("1 MiB", None),
            ("1M", None),
            ("-1MiB", None),
            ("1.5MiB", None),
            ("99999999999999999GiB", None),
            ("", None),
        ] {
            assert_eq!(parse(text), bytes, "{text:?}");
        }
    }
}
