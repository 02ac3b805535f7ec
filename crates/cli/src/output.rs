//! Writing: data to stdout, everything else to stderr.

use std::fmt;
use std::io::{self, Write};

/// A line of data. A reader that closed its end (`| head`) ends the program quietly.
pub(crate) fn data(line: fmt::Arguments<'_>) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        if error.kind() == io::ErrorKind::BrokenPipe {
            std::process::exit(0);
        }
        complain(format_args!("cannot write to standard output: {error}"));
        std::process::exit(1);
    }
}

/// One JSON object as a line of data.
pub(crate) fn json(object: &impl serde::Serialize) {
    match serde_json::to_string(object) {
        Ok(text) => data(format_args!("{text}")),
        Err(error) => complain(format_args!("cannot write JSON: {error}")),
    }
}

/// Lines for the person at the terminal. What stands in them of others, such as the name of a file, is shown and not obeyed.
pub(crate) fn say(lines: fmt::Arguments<'_>) {
    let lines: Vec<String> = lines.to_string().split('\n').map(visible).collect();
    let _ = writeln!(io::stderr(), "{}", lines.join("\n"));
}

/// A complaint.
pub(crate) fn complain(line: fmt::Arguments<'_>) {
    say(format_args!("semel: {line}"));
}

/// A table with columns as wide as they need be; the last is not padded.
pub(crate) fn table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width =
        |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().enumerate().map(|(at, cell)| match at + 1 == row.len() {
            true => cell.clone(),
            false => format!("{cell:<width$}  ", width = widths[at]),
        });
        data(format_args!("{}", cells.collect::<String>().trim_end()));
    }
}

/// Text of others on one line of a terminal: control characters, line separators and changes of direction are shown, not obeyed.
pub(crate) fn visible(text: &str) -> String {
    let obeyed = |c: char| {
        c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if obeyed(c) { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// A length of time as it is written in the configuration: `7d`, `1h30m`, `250ms`.
pub(crate) fn span(duration: std::time::Duration) -> String {
    let mut rest = duration.as_millis();
    let mut text = String::new();
    for (unit, millis) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
        if rest >= millis {
            text.push_str(&format!("{}{unit}", rest / millis));
            rest %= millis;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// `1 conflict`, `2 conflicts`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn spans_read_as_they_are_written() {
        let spans =
            [0, 250, 30_000, 5_400_000, 604_800_000, 90_061_001].map(|millis| span(Duration::from_millis(millis)));
        assert_eq!(spans, ["0s", "250ms", "30s", "1h30m", "7d", "1d1h1m1s1ms"]);
    }

    #[test]
    fn control_characters_are_shown_and_not_obeyed() {
        assert_eq!(visible("a\u{1b}[2Jb\n"), "a\\u{1b}[2Jb\\n");
    }
}
