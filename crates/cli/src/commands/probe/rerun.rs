//! The command that copies the probed tree, quoted for a shell.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Options of `probe` alone and of its output. Those with a value are in the second list.
const DROPPED: [&str; 6] = ["--doctor", "--json", "--quiet", "-q", "--progress", "--no-progress"];
const DROPPED_WITH_VALUE: [&str; 1] = ["--quick"];

/// `haul copy` with the arguments of `probe`, quoted for a shell.
pub(super) fn copy_command(words: impl IntoIterator<Item = OsString>) -> String {
    let mut command = "haul copy".to_owned();
    // Skips the program and `probe`.
    let mut words = words.into_iter().skip(1);
    for word in words.by_ref() {
        if word == "probe" {
            break;
        }
        push(&mut command, word.as_bytes());
    }
    let mut options = true;
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if options && DROPPED.contains(&&*text) {
            continue;
        }
        if options && DROPPED_WITH_VALUE.contains(&&*text) {
            words.next();
            continue;
        }
        let is_dropped = |name: &&str| text.strip_prefix(*name).is_some_and(|rest| rest.starts_with('='));
        if options && DROPPED_WITH_VALUE.iter().any(is_dropped) {
            continue;
        }
        options &= text != "--";
        push(&mut command, word.as_bytes());
    }
    command
}

fn push(command: &mut String, word: &[u8]) {
    command.push(' ');
    command.push_str(&quote(word));
}

/// A word quoted for a shell: plain, in single quotes, or in `$'…'` of bash, zsh and ksh if it is not text.
fn quote(word: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_-./:@%+=,".contains(b);
    if !word.is_empty() && word.iter().all(plain) {
        return String::from_utf8_lossy(word).into_owned();
    }
    match std::str::from_utf8(word) {
        Ok(text) if !text.chars().any(char::is_control) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => {
            let bytes = word.iter().map(|b| match b {
                b'\'' | b'\\' => format!("\\{}", char::from(*b)),
                b' '..=b'~' => char::from(*b).to_string(),
                _ => format!("\\x{b:02x}"),
            });
            format!("$'{}'", bytes.collect::<String>())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn options_of_the_copy_are_kept() {
        let of = |words: &[&str]| copy_command(words.iter().map(OsString::from));
        assert_eq!(of(&["haul", "probe", "a/", "h:b"]), "haul copy a/ h:b");
        assert_eq!(
            of(&[
                "/x/haul",
                "probe",
                "--json",
                "-e",
                "ssh -p 22",
                "--quick",
                "5",
                "--exclude=*.o",
                "a",
                "h:~/b"
            ]),
            "haul copy -e 'ssh -p 22' '--exclude=*.o' a 'h:~/b'"
        );
        assert_eq!(
            of(&["haul", "probe", "--quick=5", "--streams", "4", "a", "b"]),
            "haul copy --streams 4 a b"
        );
        assert_eq!(of(&["haul", "probe", "--", "--json", "probe"]), "haul copy -- --json probe");
    }

    #[test]
    fn a_shell_reads_back_quoted_words() {
        for word in [
            &b"it's"[..],
            b"a b",
            b"$(x)`y`\"z\"",
            b"\xff\n\t'\\",
            b"",
            b"~x",
            b"plain/1.2:3",
            "ö".as_bytes(),
        ] {
            let script = format!("printf %s {}", quote(word));
            let said = Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(said.stdout, word, "{script}");
        }
        let odd = OsString::from_vec(b"a\xff".to_vec());
        assert_eq!(copy_command(["haul".into(), "probe".into(), odd]), r"haul copy $'a\xff'");
    }
}
