//! `${NAME}` in addresses and secrets.

use std::ffi::OsString;

/// Looks up an environment variable; `|name| std::env::var_os(name)` in the program.
pub(crate) type Lookup<'l> = dyn Fn(&str) -> Option<OsString> + 'l;

/// Puts the values of environment variables in for `${NAME}`; `$${` stands for a plain `${`.
///
/// A value is put in as it is: a `${` inside it is not looked at again. The error never holds the text or a value.
pub(super) fn expand(text: &str, lookup: &Lookup<'_>) -> Result<String, String> {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(position) = rest.find("${") {
        if rest[..position].ends_with('$') {
            expanded.push_str(&rest[..position - 1]);
            expanded.push_str("${");
            rest = &rest[position + 2..];
            continue;
        }
        expanded.push_str(&rest[..position]);
        let after = &rest[position + 2..];
        let name_end = after.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(after.len());
        let name = &after[..name_end];
        let begins_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        if !begins_well || !after[name_end..].starts_with('}') {
            return Err("after \"${\" comes the name of an environment variable and \"}\", such as \"${STORE_URL}\"; \
                        a plain \"${\" is written \"$${\""
                .into());
        }
        let value = lookup(name).ok_or_else(|| format!("the environment variable {name} is not set"))?;
        let value = value.into_string().map_err(|_| format!("the environment variable {name} is not UTF-8 text"))?;
        expanded.push_str(&value);
        rest = &after[name_end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Whether the text asks for a variable, to refuse it where none is put in.
pub(super) fn mentions_variable(text: &str) -> bool {
    text.contains("${")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(name: &str) -> Option<OsString> {
        match name {
            "HOST" => Some("db.internal".into()),
            "ODD" => Some("${HOST}$".into()),
            _ => None,
        }
    }

    #[test]
    fn variables_are_put_in_once_and_the_escape_stays_plain() {
        for (text, expected) in [
            ("postgres://${HOST}/db", "postgres://db.internal/db"),
            ("${HOST}${HOST}", "db.internaldb.internal"),
            ("${ODD}", "${HOST}$"),
            ("p$${HOST}", "p${HOST}"),
            ("$$${HOST}", "$${HOST}"),
            ("cost: 5$ {x}", "cost: 5$ {x}"),
            ("", ""),
        ] {
            assert_eq!(expand(text, &lookup).as_deref(), Ok(expected), "{text:?}");
        }
    }

    #[test]
    fn an_unset_variable_is_named_and_a_broken_one_is_explained() {
        assert_eq!(expand("${HOST}${NONE}", &lookup), Err("the environment variable NONE is not set".into()));
        for broken in ["${", "${}", "${HOST", "${HOST-x}", "${1}", "${ü}"] {
            let error = expand(broken, &lookup).unwrap_err();
            assert!(error.starts_with("after \"${\" comes the name"), "{broken:?}: {error}");
        }
    }
}
