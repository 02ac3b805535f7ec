//! Durations such as `"30s"`.

use std::time::Duration;

use super::tree::{Node, Parsed, shown};

/// No duration is longer: ten years. Sums with any clock then fit everywhere.
pub(super) const DURATION_MAX: Duration = Duration::from_secs(3650 * 24 * 60 * 60);

const UNITS: &[(&str, u64)] = &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Reads `"250ms"`, `"30s"`, `"5m"`, `"1h"`, `"7d"`, or a sum of them with the largest unit first, such as `"1h30m"`.
///
/// `None` for everything else, and where the sum is longer than ten years.
fn parse(text: &str) -> Option<Duration> {
    let mut milliseconds: u64 = 0;
    let mut units = UNITS;
    let mut rest = text;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let (unit, after) = after.split_at(after.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(after.len()));
        let position = units.iter().position(|(name, _)| *name == unit)?;
        let part = number.parse::<u64>().ok()?.checked_mul(units[position].1)?;
        milliseconds = milliseconds.checked_add(part)?;
        units = &units[position + 1..];
        rest = after;
    }
    let duration = Duration::from_millis(milliseconds);
    (!text.is_empty() && duration <= DURATION_MAX).then_some(duration)
}

/// A duration between two limits, both allowed.
pub(super) fn duration(node: &Node<'_>, least: Duration, most: Duration, example: &str) -> Parsed<Duration> {
    let expected = format!("a duration with its unit (ms, s, m, h, d) such as \"{example}\" or \"1h30m\"");
    let text = node.text(&expected)?;
    let duration = parse(text).ok_or_else(|| format!("expected {expected}, found {}", shown(text)))?;
    if duration < least {
        return Err(format!("expected at least \"{}\", such as \"{example}\", found {}", written(least), shown(text)));
    }
    if duration > most {
        return Err(format!("expected at most \"{}\", such as \"{example}\", found {}", written(most), shown(text)));
    }
    Ok(duration)
}

/// A limit as the file would have it.
fn written(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    UNITS
        .iter()
        .find(|(_, unit)| milliseconds >= u128::from(*unit) && milliseconds.is_multiple_of(u128::from(*unit)))
        .map_or("0s".into(), |(name, unit)| format!("{}{name}", milliseconds / u128::from(*unit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_units_and_sums_go_downwards() {
        for (text, milliseconds) in [
            ("250ms", Some(250)),
            ("30s", Some(30_000)),
            ("5m", Some(300_000)),
            ("1h", Some(3_600_000)),
            ("7d", Some(604_800_000)),
            ("1h30m", Some(5_400_000)),
            ("1d2h3m4s5ms", Some(93_784_005)),
            ("0s", Some(0)),
            ("3650d", Some(315_360_000_000)),
            ("3650d1ms", None),
            ("99999999999999999999d", None),
            ("18446744073709551615d", None),
            ("", None),
            ("30", None),
            ("s", None),
            ("30 s", None),
            ("30S", None),
            ("-1s", None),
            ("1.5h", None),
            ("30m1h", None),
            ("1s1s", None),
            ("1h30", None),
            ("٣s", None),
            ("5min", None),
        ] {
            assert_eq!(parse(text), milliseconds.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn limits_are_written_in_their_largest_unit() {
        for text in ["1ms", "1s", "90s", "7d", "3650d", "0s"] {
            assert_eq!(written(parse(text).unwrap()), text);
        }
    }
}
