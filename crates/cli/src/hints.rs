//! What to try next, as commands that work when pasted.

use std::path::Path;

/// The words that this program was called with, and the options that lead to the same store.
pub(crate) struct Hints {
    program: String,
    tail: String,
}

impl Hints {
    pub(crate) fn new(file: &Path, store: Option<&str>) -> Self {
        let program = std::env::args().next().unwrap_or_else(|| "semel".to_owned());
        let mut tail = format!("-f {}", quoted(&file.to_string_lossy()));
        if let Some(store) = store {
            tail.push_str(&format!(" --store {}", if has_password(store) { "URL".to_owned() } else { quoted(store) }));
        }
        Hints { program: quoted(&program), tail }
    }

    /// A command, e.g. `dead list` without arguments.
    pub(crate) fn command(&self, verb: &[&str], arguments: &[&str]) -> String {
        let join = |words: &[&str]| words.iter().map(|word| format!("{} ", quoted(word))).collect::<String>();
        let (program, tail) = (&self.program, &self.tail);
        match arguments.iter().any(|argument| argument.starts_with('-')) {
            false => format!("{program} {}{}{tail}", join(verb), join(arguments)),
            // What looks like an option is none behind `--`.
            true => format!("{program} {}{tail} -- {}", join(verb), join(arguments).trim_end()),
        }
    }
}

/// A password belongs on no screen, not even where its owner typed it.
fn has_password(address: &str) -> bool {
    let authority = address.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || address.contains("password=")
}

/// For a POSIX shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_words_are_quoted_and_passwords_are_not_repeated() {
        assert_eq!(quoted("pay-1007"), "pay-1007");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        let hints = Hints::new(Path::new("a b.toml"), Some("postgres://me:secret@host/db"));
        let command = hints.command(&["dead", "list"], &[]);
        assert!(command.ends_with("dead list -f 'a b.toml' --store URL"), "{command}");
        let hints = Hints::new(Path::new("a.toml"), Some("postgres://me@host/db"));
        assert!(
            hints
                .command(&["explain"], &["payments", "--json"])
                .ends_with("explain -f a.toml --store postgres://me@host/db -- payments --json")
        );
        assert!(hints.command(&["status"], &[]).ends_with("status -f a.toml --store postgres://me@host/db"));
    }
}
