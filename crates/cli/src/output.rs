//! Writing: data to stdout, everything else to stderr.

use std::fmt;
use std::io::{self, Write};

/// A line of data. A reader that closed its end (`| head`) ends the program quietly.
pub(crate) fn data(line: fmt::Arguments<'_>) {
    if let Err(error) = writeln!(io::stdout(), "{line}") {
        let code = if error.kind() == io::ErrorKind::BrokenPipe { 0 } else { 1 };
        std::process::exit(code);
    }
}

/// One JSON object as a line of data.
pub(crate) fn json(object: &impl serde::Serialize) {
    match serde_json::to_string(object) {
        Ok(text) => data(format_args!("{text}")),
        Err(error) => complain(format_args!("cannot write JSON: {error}")),
    }
}

/// A line for the person at the terminal.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A complaint.
pub(crate) fn complain(line: fmt::Arguments<'_>) {
    say(format_args!("semel: {line}"));
}

/// A table with columns as wide as they need be; the last is not padded.
pub(crate) fn table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for row in rows {
        let cells = row.iter().enumerate().map(|(at, cell)| match at + 1 == row.len() {
            true => cell.clone(),
            false => format!("{cell:<width$}  ", width = widths[at]),
        });
        data(format_args!("{}", cells.collect::<String>().trim_end()));
    }
}

/// Text of others on one line of a terminal: control characters are shown, not obeyed.
pub(crate) fn visible(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { c.escape_default().to_string() } else { c.to_string() }).collect()
}

/// `1 conflict`, `2 conflicts`.
pub(crate) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
