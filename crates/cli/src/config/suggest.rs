//! "Did you mean …?": the nearest of the words that are known.

/// Words longer than this get no suggestion: nobody mistypes that much, and the comparison takes the product of the
/// lengths.
const WORD_BYTES_MAX: usize = 64;

/// The known word that `word` most likely was meant to be, if one is near enough.
///
/// Near is: at most one edit in three letters, where an edit adds, drops or replaces a letter or swaps two neighbours.
/// `-` and `_` are the same here, and so are small and capital letters.
pub(super) fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let word = letters(word);
    known
        .iter()
        .map(|candidate| (edits(&word, &letters(candidate)), *candidate))
        .filter(|(edits, candidate)| *edits <= (candidate.chars().count().min(word.len()) / 3).max(1))
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, candidate)| candidate)
}

/// The sentence for a key that nobody knows.
pub(super) fn unknown_key(key: &str, known: &[&str]) -> String {
    match (nearest(key, known), known) {
        (Some(near), _) => format!("unknown key; did you mean \"{near}\"?"),
        (None, [only]) => format!("unknown key; the only key here is {only}"),
        (None, _) => format!("unknown key; the keys here are {}", listed(known, "and")),
    }
}

/// `a, b and c`
pub(super) fn listed<W: AsRef<str>>(words: &[W], conjunction: &str) -> String {
    let mut text = String::new();
    for (number, word) in words.iter().enumerate() {
        if number > 0 && number + 1 == words.len() {
            text.push_str(&format!(" {conjunction} "));
        } else if number > 0 {
            text.push_str(", ");
        }
        text.push_str(word.as_ref());
    }
    text
}

fn letters(word: &str) -> Vec<char> {
    word.chars().map(|letter| if letter == '-' { '_' } else { letter.to_ascii_lowercase() }).collect()
}

/// The number of edits between two words, where no letter is edited twice.
fn edits(left: &[char], right: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for row in 1..=left.len() {
        let mut current = vec![row];
        for column in 1..=right.len() {
            let replaced = last[column - 1] + usize::from(left[row - 1] != right[column - 1]);
            let mut fewest = replaced.min(last[column] + 1).min(current[column - 1] + 1);
            let swapped =
                row > 1 && column > 1 && left[row - 1] == right[column - 2] && left[row - 2] == right[column - 1];
            if swapped {
                fewest = fewest.min(before_last[column - 2] + 1);
            }
            current.push(fewest);
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let known = ["id", "kind", "key", "lanes", "max_batch", "on_conflict", "on"];
        for (typed, meant) in [
            ("lane", Some("lanes")),
            ("lanse", Some("lanes")),
            ("Max-Batch", Some("max_batch")),
            ("maxbatch", Some("max_batch")),
            ("on_conflicts", Some("on_conflict")),
            ("di", Some("id")),
            ("no", Some("on")),
            ("x", None),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, &known), meant, "{typed:?}");
        }
        assert_eq!(nearest(&"k".repeat(1_000_000), &known), None);
    }
}
