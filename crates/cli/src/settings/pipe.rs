//! The two programs of a pipe, and the host of one of them.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use haul_core::location::SshHost;
use haul_core::{Location, Program, Result};
use haul_job::PipeProgram;

use super::errors::usage;
use crate::args::{PIPE_FORMS, PipeArgs};

/// The program that writes, and the one that reads.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if one is missing, or the host is none.
pub(crate) fn programs(args: &PipeArgs) -> Result<(PipeProgram, PipeProgram)> {
    let into = Program { words: vec![args.into.as_bytes().to_vec()] };
    let (first, command) = (args.first.as_ref(), args.command.as_slice());
    let (from_host, into_host, words) = match (&args.from, first, command) {
        (Some(_), Some(line), []) if is_host_to(line) => {
            let cause = "one of the two programs runs here, and two hosts are given";
            let hint = "log in to one of them, and run haul pipe there";
            return Err(usage("pipe the stream", cause).on(line.as_bytes()).with_hint(hint));
        }
        (Some(_), Some(first), [_, ..]) => {
            let cause = "one of the two programs runs here, and two hosts are given";
            let hint = "log in to one of them, and run haul pipe there";
            return Err(usage("pipe the stream", cause).on(first.as_bytes()).with_hint(hint));
        }
        (Some(from), Some(line), []) => (Some(host(from)?), None, vec![line.as_bytes().to_vec()]),
        (Some(from), None, words @ [_, ..]) => (Some(host(from)?), None, bytes(words)),
        (None, Some(to), words @ [_, ..]) => (None, Some(host(to)?), bytes(words)),
        (None, None, _) => {
            return Err(usage("pipe the stream", "the host is missing").with_hint(PIPE_FORMS));
        }
        (_, _, []) => {
            let cause =
                "the command that writes it is missing; haul starts it itself, to learn whether it failed";
            return Err(usage("pipe the stream", cause).with_hint(PIPE_FORMS));
        }
    };
    if into.words.iter().chain(&words).any(|word| word.is_empty() || word.contains(&0)) {
        return Err(usage("pipe the stream", "a command is empty"));
    }
    let from = PipeProgram { program: Program { words }, host: from_host };
    Ok((from, PipeProgram { program: into, host: into_host }))
}

fn bytes(words: &[OsString]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

/// Whether the text is a host and cannot be a program.
fn is_host_to(text: &OsStr) -> bool {
    text.as_bytes().ends_with(b":") || text.as_bytes().starts_with(b"ssh://")
}

/// Reads a host: `[user@]host`, perhaps with a colon, or `ssh://[user@]host[:port]`.
fn host(text: &OsStr) -> Result<SshHost> {
    let bytes = text.as_bytes();
    let has_scheme = bytes.windows(3).any(|three| three == b"://");
    let colon: &[u8] = if has_scheme || bytes.ends_with(b":") { b"" } else { b":" };
    match Location::parse(&[bytes, colon].concat())? {
        Location::Ssh { host, path } if matches!(path.as_slice(), b"" | b"/") => Ok(host),
        _ => {
            let error = usage("pipe the stream", "it is no host").on(bytes);
            Err(error.with_hint("give USER@HOST or ssh://USER@HOST:PORT"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command, parse};

    /// `None`: the parser refuses it.
    fn read(words: &[&str]) -> Option<Result<(PipeProgram, PipeProgram)>> {
        let words = ["haul", "pipe", "--into", "cat > x"].iter().chain(words).map(OsString::from);
        match parse(words) {
            Ok(Cli { command: Command::Pipe(args) }) => Some(programs(&args)),
            Ok(other) => panic!("{other:?}"),
            Err(_) => None,
        }
    }

    #[test]
    fn one_program_is_here_and_the_other_on_the_host() {
        let (from, into) = read(&["me@db2", "--", "tar", "c", "."]).unwrap().unwrap();
        assert_eq!((from.host, from.program.words.len()), (None, 3));
        assert_eq!(into.host.unwrap().destination, "me@db2");
        assert_eq!(into.program.words, [b"cat > x"]);
        for words in
            [&["--from", "ssh://db1:2222", "tar c ."][..], &["--from=ssh://db1:2222/", "--", "tar c ."]]
        {
            let (from, into) = read(words).unwrap().unwrap();
            assert_eq!(
                (from.host.unwrap().port, from.program.words),
                (Some(2222), vec![b"tar c .".to_vec()])
            );
            assert_eq!(into.host, None);
        }
    }

    #[test]
    fn a_request_that_is_no_pipe_is_refused() {
        for (words, cause) in [
            (&["--from", "db1", "db2:"][..], "two hosts"),
            (&["--from", "db1", "db2", "--", "cat"], "two hosts"),
            (&["db2"], "is missing"),
            (&["--from", "db1"], "is missing"),
            (&["--", "cat"], "host is missing"),
            (&["db2:/x", "--", "cat"], "no host"),
            (&["sftp://db2", "--", "cat"], "no host"),
            (&["s3://b/k", "--", "cat"], "no host"),
            (&["--from=-oProxyCommand=x", "--", "cat"], "begins with `-`"),
            (&["db2", "--", ""], "empty"),
        ] {
            let error = read(words).unwrap_or_else(|| panic!("{words:?}")).err();
            let error = error.unwrap_or_else(|| panic!("{words:?}"));
            assert!(
                error.kind() == haul_core::ErrorKind::Usage && error.to_string().contains(cause),
                "{error}"
            );
        }
    }
}
