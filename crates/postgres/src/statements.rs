//! Where one SQL statement ends and the next begins. Only the outline is read: PostgreSQL judges the rest.

/// One statement of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Statement<'a> {
    /// The text from its first word on, without its semicolon.
    pub(crate) text: &'a str,
    /// Where it begins in the whole text, in bytes.
    pub(crate) place: usize,
    /// Its first words in lower case, without what is quoted: at most three.
    pub(crate) words: Vec<String>,
}

impl Statement<'_> {
    /// Whether the statement ends the transaction that it stands in, or begins one.
    pub(crate) fn is_transaction_control(&self) -> bool {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        match words[..] {
            ["commit" | "end" | "abort" | "begin", ..] | ["start" | "prepare", "transaction", ..] => true,
            ["rollback", ref rest @ ..] => !rest.contains(&"to"),
            _ => false,
        }
    }

    /// Whether it is a COPY that the client feeds or reads.
    pub(crate) fn copies_from_the_client(&self) -> bool {
        let text = self.text.to_ascii_lowercase();
        self.words.first().is_some_and(|word| word == "copy") && (text.contains("stdin") || text.contains("stdout"))
    }

    /// Whether it can make tables, functions or settings that later statements need.
    pub(crate) fn may_change_names(&self) -> bool {
        !matches!(
            self.words.first().map(String::as_str),
            Some("select" | "insert" | "update" | "delete" | "merge" | "with" | "values" | "table")
        )
    }
}

/// The statements of a text; those that are nothing but comments are left out. `None` where a body of statements
/// (`begin atomic … end`) makes the semicolons ambiguous.
pub(crate) fn split(sql: &str) -> Option<Vec<Statement<'_>>> {
    let mut all = Vec::new();
    let mut place = 0;
    // Where the statement begins that is being read, once it has.
    let mut start = None;
    let mut words: Vec<String> = Vec::new();
    let mut last = String::new();
    while let Some(token) = Token::at(&sql[place..]) {
        let text = &sql[place..place + token.length];
        match token.kind {
            Kind::Space => {}
            Kind::Semicolon => {
                if let Some(start) = start.take() {
                    all.push(Statement { text: &sql[start..place], place: start, words: std::mem::take(&mut words) });
                }
                last.clear();
            }
            Kind::Word => {
                let word = text.to_ascii_lowercase();
                start = start.or(Some(place));
                if last == "begin" && word == "atomic" {
                    return None;
                }
                if words.len() < 3 {
                    words.push(word.clone());
                }
                last = word;
            }
            Kind::Other => {
                start = start.or(Some(place));
                last.clear();
            }
        }
        place += token.length;
    }
    if let Some(start) = start {
        all.push(Statement { text: &sql[start..], place: start, words });
    }
    Some(all)
}

enum Kind {
    Space,
    Semicolon,
    Word,
    Other,
}

struct Token {
    kind: Kind,
    length: usize,
}

impl Token {
    fn at(rest: &str) -> Option<Token> {
        let mut chars = rest.chars();
        let first = chars.next()?;
        let second = chars.next();
        let (kind, length) = match (first, second) {
            (c, _) if c.is_ascii_whitespace() => (Kind::Space, 1),
            ('-', Some('-')) => (Kind::Space, rest.find('\n').unwrap_or(rest.len())),
            ('/', Some('*')) => (Kind::Space, comment(rest)),
            (';', _) => (Kind::Semicolon, 1),
            ('\'', _) => (Kind::Other, quoted(rest, '\'', false)),
            ('"', _) => (Kind::Other, quoted(rest, '"', false)),
            ('e' | 'E', Some('\'')) => (Kind::Other, 1 + quoted(&rest[1..], '\'', true)),
            ('$', _) => (Kind::Other, dollar_quoted(rest).unwrap_or(1)),
            (c, _) if is_word_start(c) => (Kind::Word, rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
            // A number, with what follows it: `1e5` holds no word.
            (c, _) if c.is_ascii_digit() => (Kind::Other, rest.find(|c| !is_word(c)).unwrap_or(rest.len())),
            (c, _) => (Kind::Other, c.len_utf8()),
        };
        Some(Token { kind, length })
    }
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn is_word(c: char) -> bool {
    is_word_start(c) || c.is_ascii_digit() || c == '$'
}

/// To the closing quote, which is not doubled, nor, with `escapes`, behind a backslash; without one, to the end.
fn quoted(rest: &str, quote: char, escapes: bool) -> usize {
    let mut chars = rest.char_indices().skip(1).peekable();
    while let Some((place, c)) = chars.next() {
        match c {
            '\\' if escapes => drop(chars.next()),
            c if c == quote && chars.peek().is_some_and(|(_, next)| *next == quote) => drop(chars.next()),
            c if c == quote => return place + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// `$tag$ … $tag$`.
fn dollar_quoted(rest: &str) -> Option<usize> {
    let tag = rest[1..].find('$')? + 2;
    let name = &rest[1..tag - 1];
    if !name.chars().all(|c| is_word(c) && c != '$') || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    Some(rest[tag..].find(&rest[..tag]).map_or(rest.len(), |end| tag + end + tag))
}

/// Comments nest.
fn comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut place, mut depth) = (0, 0_usize);
    while place + 1 < bytes.len() {
        match &bytes[place..place + 2] {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                place += 1;
                continue;
            }
        }
        place += 2;
        if depth == 0 {
            return place;
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(sql: &str) -> Vec<&str> {
        split(sql).unwrap().into_iter().map(|statement| statement.text.trim()).collect()
    }

    #[test]
    fn semicolons_in_quotes_and_comments_end_nothing() {
        assert_eq!(texts("select ';'; select 1"), ["select ';'", "select 1"]);
        assert_eq!(texts("select 'it''s;'; "), ["select 'it''s;'"]);
        assert_eq!(texts(r"select E'\';'; select e'\\'; x"), [r"select E'\';'", r"select e'\\'", "x"]);
        assert_eq!(texts(r"select '\'; select 2"), [r"select '\'", "select 2"]);
        assert_eq!(texts("select \"a;b\" -- ; no\n; select 2 -- end"), ["select \"a;b\" -- ; no", "select 2 -- end"]);
        assert_eq!(texts("/* ; /* ; */ ; */ select 1; /* nothing */ ;; -- nothing"), ["select 1"]);
        assert_eq!(
            texts("do $$ begin a; b; end $$; select $x$ ; $$ ; $x$"),
            ["do $$ begin a; b; end $$", "select $x$ ; $$ ; $x$"]
        );
        assert_eq!(texts("select a$b; select $1; select c$"), ["select a$b", "select $1", "select c$"]);
        assert_eq!(texts("select 'ü;' as ü; select 'open; "), ["select 'ü;' as ü", "select 'open;"]);
        assert_eq!(texts(""), Vec::<&str>::new());
        assert_eq!(texts("select 2/*"), ["select 2/*"]);
        let second = &split("a;\n\n -- b\n c").unwrap()[1];
        assert_eq!((second.place, second.text, &*second.words), (11, "c", &["c".to_owned()][..]));
        assert_eq!(split("create function f() returns int begin atomic select 1; end"), None);
    }

    #[test]
    fn knows_what_ends_a_transaction() {
        let ends = |sql: &str| split(sql).unwrap()[0].is_transaction_control();
        for sql in [
            "commit",
            "-- so\n COMMIT and chain",
            "rollback",
            "end",
            "abort work",
            "begin",
            "Start Transaction",
            "prepare transaction 'x'",
            "rollback work",
        ] {
            assert!(ends(sql), "{sql}");
        }
        for sql in [
            "rollback to x",
            "rollback work to savepoint x",
            "savepoint commit",
            "release x",
            "prepare p as select 1",
            "select 'commit'",
            "insert into commit select 1",
        ] {
            assert!(!ends(sql), "{sql}");
        }
    }
}
