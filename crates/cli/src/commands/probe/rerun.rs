//! The command that copies the probed tree, quoted for a shell.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

use haul_core::text::shell_quoted;

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
    command.push_str(&shell_quoted(word));
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
            let script = format!("printf %s {}", shell_quoted(word));
            let said = Command::new("bash").args(["-c", &script]).output().unwrap();
            assert_eq!(said.stdout, word, "{script}");
        }
        let odd = OsString::from_vec(b"a\xff".to_vec());
        assert_eq!(copy_command(["haul".into(), "probe".into(), odd]), r"haul copy $'a\xff'");
    }
}
