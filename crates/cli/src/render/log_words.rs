//! A command line without the values that may be secret.

use std::ffi::OsString;

use haul_core::path::printable;

const HIDDEN: &str = "(hidden)";

/// The words on one line. Hidden are the command of `-e`, which may hold a password for a login, passwords in URLs and
/// secret keys.
pub(super) fn without_secrets(words: impl IntoIterator<Item = OsString>) -> String {
    let mut shown = Vec::new();
    let mut hides_next = false;
    for word in words {
        let text = printable(word.as_encoded_bytes());
        if std::mem::take(&mut hides_next) {
            shown.push(HIDDEN.to_owned());
            continue;
        }
        let (text, next) = without_command(&text);
        hides_next = next;
        shown.push(quoted(without_password(&without_key(text))));
    }
    shown.join(" ")
}

/// The word without the value of `-e` or `--rsh`, and whether that is the next word.
fn without_command(word: &str) -> (String, bool) {
    if word == "--rsh" {
        return (word.to_owned(), true);
    }
    if word.starts_with("--rsh=") {
        return (format!("--rsh={HIDDEN}"), false);
    }
    // The last of several short options in one word takes the value.
    let short = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
    match short.and_then(|rest| rest.split_once('e')) {
        Some((_, "")) => (word.to_owned(), true),
        Some((before, _)) => (format!("-{before}e{HIDDEN}"), false),
        None => (word.to_owned(), false),
    }
}

fn without_key(word: String) -> String {
    if word.to_ascii_uppercase().contains("AGE-SECRET-KEY") { HIDDEN.to_owned() } else { word }
}

/// `https://user:password@host` without the user and the password.
fn without_password(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match host.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => format!("{scheme}://{HIDDEN}@{host}{path}"),
        _ => word.to_owned(),
    }
}

fn quoted(word: String) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_./:=@%+,~()".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(words: &[&str]) -> String {
        without_secrets(words.iter().map(OsString::from))
    }

    #[test]
    fn secrets_are_hidden() {
        let lines: [(&[&str], &str); 7] = [
            (&["haul", "copy", "-n", "a b", "h:c"], "haul copy -n 'a b' h:c"),
            (&["copy", "-e", "sshpass -p x ssh", "a"], "copy -e (hidden) a"),
            (&["copy", "-ave", "sshpass -p x ssh", "a"], "copy -ave (hidden) a"),
            (&["copy", "-aesshpass -p x ssh", "a"], "copy -ae(hidden) a"),
            (&["copy", "--rsh", "x", "--rsh=sshpass"], "copy --rsh (hidden) --rsh=(hidden)"),
            (&["put", "--endpoint=https://u:p@h:1/x"], "put --endpoint=https://(hidden)@h:1/x"),
            (&["get", "--identity=AGE-SECRET-KEY-1QQ", "s3://b/k@1"], "get (hidden) s3://b/k@1"),
        ];
        for (words, expected) in lines {
            assert_eq!(shown(words), expected);
        }
    }
}
