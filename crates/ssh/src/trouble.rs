//! The consequence of the end of an ssh process for the next attempt, and the error for the user.

use haul_core::text::shell_quoted;
use haul_core::{Error, ErrorKind, Side};

use super::errand::Errand;
use crate::dial::{AfterRefusal, DialRefused};

/// The operation that fails if the remote host has no haul.
const START: &str = "start haul at";

/// The words of nologin(8), which it prints instead of running a command.
const NO_LOGIN: &str = "This account is currently not available";

/// The cause if the remote end sent the words of nologin(8), and the way out.
#[must_use]
pub fn no_login(said: &[u8]) -> Option<(&'static str, &'static str)> {
    let says_so = said.windows(NO_LOGIN.len()).any(|words| words == NO_LOGIN.as_bytes());
    says_so.then_some((
        "its shell runs no commands: `This account is currently not available`",
        "the shell of this account there is nologin: log in as another user, as in USER@HOST, or give it a shell \
         (chsh)",
    ))
}

/// The words that sshd prints instead of running a command, with `ForceCommand internal-sftp`.
const SFTP_ONLY: &str = "This service allows sftp connections only";

/// The status with which the SFTP server of OpenSSH ends after a message that is none of SFTP.
const BAD_MESSAGE: i32 = 11;

/// The types of packets with which an SFTP server may begin: SSH_FXP_VERSION and SSH_FXP_STATUS.
const SFTP_ANSWERS: [u8; 2] = [2, 101];

/// The cause and the way out if the account `name` runs the SFTP server instead of any command, by the bytes that it sent.
#[must_use]
pub fn sftp_only(said: &[u8], name: &str) -> Option<(&'static str, String)> {
    let in_words = said.windows(SFTP_ONLY.len()).any(|words| words == SFTP_ONLY.as_bytes());
    // The length of a packet, which is at most 256 KiB, and its type.
    let in_packets = matches!(said, [0, 0..=3, _, _, kind, ..] if SFTP_ANSWERS.contains(kind));
    (in_words || in_packets).then(|| ("this account there runs SFTP alone", over_sftp(name)))
}

fn over_sftp(name: &str) -> String {
    format!("write sftp://{name}/PATH, which needs no haul there")
}

/// The hint for a command that failed without a word.
const SILENT_SHELL: &str = "is the shell of this account there one that runs no commands, as false does? then log in \
                            as another user, or give it a shell (chsh)";

/// Whether this error means that the remote host has no haul.
#[must_use]
pub fn is_missing(error: &Error) -> bool {
    error.operation() == START && error.kind() == ErrorKind::Unreachable
}

/// The hint for another haul, or another program.
const SAME_VERSION: &str =
    "the same version of haul must be installed there; another one is named with `--remote-haul PATH`";

/// The status that ssh ends with for reasons of its own, as opposed to those of the command.
const SSH_FAILED: i32 = 255;

/// The message of ssh before it asks for a password again.
const AGAIN: &str = "Permission denied, please try again";

/// Parts of ssh's messages when the login is refused.
const LOGIN: [&str; 7] = [
    "Permission denied (",
    AGAIN,
    "Too many authentication failures",
    "Host key verification failed",
    "No supported authentication methods",
    "uthentication failed",
    "host key has changed",
];

/// Parts of ssh's messages when it rejects the key of the host.
const HOST_KEY: [&str; 2] = ["Host key verification failed", "host key has changed"];

/// Whether ssh printed this line before it asked for a password again.
pub(super) fn is_asked_again(line: &str) -> bool {
    line.starts_with(AGAIN)
}

/// Whether ssh rejected the key of the host.
pub(super) fn is_host_key(lines: &[&str]) -> bool {
    lines.iter().any(|line| HOST_KEY.iter().any(|words| line.contains(words)))
}

/// The command that logs in, for hints.
pub(super) struct LoginCommand {
    /// The command and its options, if it is ssh. Another one is not repeated, because it may contain a password
    /// (`sshpass -p`).
    pub(super) shell: Option<Vec<String>>,
    /// The name of the host, for messages.
    pub(super) name: String,
    /// The last arguments, up to the host.
    pub(super) host: String,
}

impl LoginCommand {
    /// The command as a user runs it, with more arguments.
    fn with(&self, more: &str) -> String {
        let host = &self.host;
        let Some(shell) = &self.shell else {
            return format!("`SSH {host}{more}` (SSH: the command that you gave with -e)");
        };
        let words: Vec<String> = shell.iter().map(|word| shell_quoted(word.as_bytes())).collect();
        format!("`{} {host}{more}`", words.join(" "))
    }
}

/// The hint for a rejected host key.
fn host_key_hint(lines: &[&str], login: &LoginCommand) -> String {
    if lines.iter().any(|line| line.contains("IDENTIFICATION HAS CHANGED")) {
        let offending = lines.iter().filter(|line| line.starts_with("Offending "));
        let known = offending.filter_map(|line| line.split_once(" key in ")).map(|(_, place)| place).next();
        let place = known.map_or_else(|| "the file of known hosts".to_owned(), str::to_owned);
        let name = &login.name;
        return format!("if you know why the key of {name} has changed, remove the old one from {place}");
    }
    format!("if its key is not known here yet, run {} once and accept it", login.with(""))
}

/// Whether ssh says in this line that it cannot use the key of `-i`.
fn is_unusable_key(line: &str) -> bool {
    line.contains("Identity file ") && line.contains(" not accessible") || line.starts_with("Load key ")
}

/// Parts of ssh's messages after which another attempt would fail in the same way.
const HOPELESS: [&str; 5] = [
    "Could not resolve hostname",
    "Bad configuration option",
    "Bad owner or permissions",
    "no matching ",
    "unknown option",
];

/// Interprets the exit status and the last lines of an ssh process without a greeting.
pub(super) fn explain(
    code: Option<i32>,
    lines: &[&str],
    login: &LoginCommand,
    errand: &Errand,
) -> DialRefused {
    let name = &login.name;
    let said = |words: &[&str]| lines.iter().any(|line| words.iter().any(|word| line.contains(word)));
    // Before this line, ssh prints the reason of the server.
    let reason = lines.iter().rfind(|line| !line.starts_with("Disconnected from "));
    let last = reason.or(lines.last()).copied().unwrap_or_default();
    let unreachable = |operation: &str, cause: String| {
        Error::new(ErrorKind::Unreachable, Side::Wire, operation, cause).on(name)
    };
    let remote_haul = match errand {
        Errand::Agent(haul) => haul,
        Errand::Sftp | Errand::Command(_) => {
            let mut refused =
                explain_other(code, last, &said, &|cause| unreachable("connect to", cause), errand);
            refused.error = with_hint(refused.error, lines, login);
            return refused;
        }
    };
    match code {
        Some(code @ (126 | 127)) => {
            let outcome = if code == 126 { "cannot be run" } else { "was not found" };
            let cause = match last {
                "" => format!("`{remote_haul}` {outcome} there"),
                last => format!("`{remote_haul}` {outcome} there ({last})"),
            };
            let hint = "install haul there, or say where it is with `--remote-haul PATH`";
            DialRefused { trouble: AfterRefusal::Fatal, error: unreachable(START, cause).with_hint(hint) }
        }
        Some(SSH_FAILED) | None => {
            let cause = if last.is_empty() { "ssh ended and said nothing" } else { last };
            let error = unreachable("connect to", cause.to_owned());
            DialRefused { trouble: trouble(&said), error: with_hint(error, lines, login) }
        }
        Some(code) => {
            let cause = match last {
                "" => format!("`{remote_haul} agent` ended with status {code}"),
                last => format!("`{remote_haul} agent` ended with status {code}: {last}"),
            };
            let hint = match last {
                "" if code == 1 => SILENT_SHELL.to_owned(),
                "" if code == BAD_MESSAGE => {
                    format!("does this account run SFTP alone? then {}", over_sftp(name))
                }
                _ => SAME_VERSION.to_owned(),
            };
            // haul ends in order without a greeting if its session ends as the connection joins it. The next one finds no
            // session and begins anew.
            let trouble = if code == 0 { AfterRefusal::Later } else { AfterRefusal::Fatal };
            DialRefused { trouble, error: unreachable("run haul at", cause).with_hint(hint) }
        }
    }
}

/// The error, with a hint if ssh rejected the key of the host, or the host rejected the user, or is unknown.
fn with_hint(error: Error, lines: &[&str], login: &LoginCommand) -> Error {
    let said = |words: &str| lines.iter().any(|line| line.contains(words));
    if is_host_key(lines) {
        error.with_hint(host_key_hint(lines, login))
    } else if said("Permission denied (")
        && let Some(why) = lines.iter().find(|line| is_unusable_key(line))
    {
        let why = why.trim_start_matches("Warning: ").trim_end_matches('.');
        error.with_hint(format!("{why}: name another key, as in -e 'ssh -i KEY'"))
    } else if said("Permission denied (") {
        error.with_hint(format!("haul logs in with ssh: first make {} work", login.with(" true")))
    } else if said("Too many authentication failures") {
        error.with_hint(
            "ssh offered more keys than the server takes: name one, as in -e 'ssh -o IdentitiesOnly=yes -i KEY'",
        )
    } else if said("Could not resolve hostname") {
        error.with_hint("check the name: the part before a colon is a host, and a local path with a colon in it is ./PATH")
    } else {
        error
    }
}

/// The consequence of a failure of ssh itself for the next attempt.
fn trouble(said: &dyn Fn(&[&str]) -> bool) -> AfterRefusal {
    if said(&LOGIN) {
        AfterRefusal::Login
    } else if said(&HOPELESS) {
        AfterRefusal::Fatal
    } else {
        AfterRefusal::Later
    }
}

/// Interprets the end of a process that ran the SFTP server or a command.
fn explain_other(
    code: Option<i32>,
    last: &str,
    said: &dyn Fn(&[&str]) -> bool,
    unreachable: &dyn Fn(String) -> Error,
    errand: &Errand,
) -> DialRefused {
    if *errand == Errand::Sftp && said(&["subsystem request failed"]) {
        let error = unreachable("the server there offers no SFTP".to_owned());
        let hint = "install haul there (`--bootstrap` does it), or have its sshd offer the subsystem sftp";
        return DialRefused { trouble: AfterRefusal::Fatal, error: error.with_hint(hint) };
    }
    match code {
        Some(SSH_FAILED) | None => {
            let cause = if last.is_empty() { "ssh ended and said nothing" } else { last };
            DialRefused { trouble: trouble(said), error: unreachable(cause.to_owned()) }
        }
        Some(code) => {
            let what = if *errand == Errand::Sftp { "the SFTP server" } else { "the command" };
            let cause = match last {
                "" => format!("{what} there ended with status {code}"),
                last => format!("{what} there ended with status {code}: {last}"),
            };
            let error = unreachable(cause);
            let is_silent = code == 1 && last.is_empty() && *errand == Errand::Sftp;
            let error = if is_silent { error.with_hint(SILENT_SHELL) } else { error };
            DialRefused { trouble: AfterRefusal::Fatal, error }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(given: bool) -> LoginCommand {
        let words: &[&str] = if given { &["ssh", "-i", "my key"] } else { &["ssh"] };
        let shell = words.iter().map(|word| (*word).to_owned()).collect();
        LoginCommand { shell: Some(shell), name: "db1:2222".to_owned(), host: "-p 2222 db1".to_owned() }
    }

    fn trouble(code: i32, line: &str) -> (AfterRefusal, String) {
        let refused = explain(Some(code), &[line], &login(false), &Errand::Agent("haul".to_owned()));
        (refused.trouble, refused.error.to_string())
    }

    #[test]
    fn tells_the_cases_apart() {
        let (missing, text) = trouble(127, "bash: line 1: haul: command not found");
        assert_eq!(missing, AfterRefusal::Fatal);
        assert!(text.contains("was not found there"), "{text}");
        assert!(
            trouble(126, "bash: line 1: /etc/passwd: Permission denied").1.contains("cannot be run there")
        );
        assert_eq!(trouble(255, "me@db1: Permission denied (publickey).").0, AfterRefusal::Login);
        assert_eq!(trouble(255, "Host key verification failed.").0, AfterRefusal::Login);
        for later in [
            "kex_exchange_identification: read: Connection reset by peer",
            "ssh: connect to host db1 port 22: Connection refused",
            "ssh: connect to host db1 port 22: Connection timed out",
            "",
        ] {
            assert_eq!(trouble(255, later).0, AfterRefusal::Later, "{later}");
        }
        assert_eq!(
            trouble(255, "ssh: Could not resolve hostname db1: Name or service not known").0,
            AfterRefusal::Fatal
        );
        let hint_of = |given, lines: &[&str]| {
            let refused = explain(Some(255), lines, &login(given), &Errand::Sftp);
            refused.error.hint().unwrap_or_default().to_owned()
        };
        let hint = |lines: &[&str]| hint_of(false, lines);
        assert!(hint(&["Host key verification failed."]).contains("`ssh -p 2222 db1`"));
        let changed = [
            "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @",
            "Add correct host key in /k to get rid of this message.",
            "Offending RSA key in /k:3",
            "Host key verification failed.",
        ];
        assert!(hint(&changed).ends_with("from /k:3"), "{}", hint(&changed));
        let denied = ["me@db1: Permission denied (publickey)."];
        let no_key = [
            "Warning: Identity file /nokey not accessible: No such file or directory.",
            "me@db1: Permission denied (publickey).",
        ];
        let said = "Identity file /nokey not accessible: No such file or directory: name another key, as in -e 'ssh -i KEY'";
        assert_eq!(hint(&no_key), said);
        let open = ["Load key \"/k\": bad permissions", "me@db1: Permission denied (publickey)."];
        assert_eq!(hint(&open), "Load key \"/k\": bad permissions: name another key, as in -e 'ssh -i KEY'");
        assert!(hint(&denied).contains("`ssh -p 2222 db1 true`"));
        assert!(hint_of(true, &denied).contains("`ssh -i 'my key' -p 2222 db1 true`"));
        let sshpass = LoginCommand { shell: None, ..login(true) };
        let refused = explain(Some(255), &denied, &sshpass, &Errand::Sftp).error;
        let shown = "`SSH -p 2222 db1 true` (SSH: the command that you gave with -e)";
        assert!(refused.hint().unwrap_or_default().contains(shown));
        assert!(hint(&["ssh: Could not resolve hostname db1: no"]).contains("./PATH"));
        assert_eq!(hint(&["Connection refused"]), "");
        let (other, text) = trouble(2, "error: unrecognized subcommand 'agent'");
        assert_eq!(other, AfterRefusal::Fatal);
        assert!(text.contains("status 2: error: unrecognized"), "{text}");
        assert_eq!(trouble(0, "").0, AfterRefusal::Later);
    }

    #[test]
    fn an_account_for_sftp_alone_is_recognized() {
        let way_out = |said: &[u8]| sftp_only(said, "me@db1:2222").map(|(_, hint)| hint);
        let url = "write sftp://me@db1:2222/PATH, which needs no haul there";
        for said in [
            &b"This service allows sftp connections only.\r\n"[..],
            b"\0\0\0\x05\x02\0\0\0\x03",
            b"\0\0\x01\x10\x65x",
        ] {
            assert_eq!(way_out(said).as_deref(), Some(url), "{said:?}");
        }
        for said in [&b"Welcome to db1"[..], b"\0\0\0\x05\x03", b"\0\x09\0\x05\x02", b"\0\0", b""] {
            assert_eq!(way_out(said), None, "{said:?}");
        }
        let refused = explain(Some(BAD_MESSAGE), &[], &login(false), &Errand::Agent("haul".to_owned()));
        assert!(refused.error.hint().unwrap_or_default().contains("sftp://db1:2222/PATH"));
    }

    #[test]
    fn the_reason_of_the_server_precedes_the_last_line_of_ssh() {
        let many = "Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures";
        let lines = [many, "Disconnected from 10.0.0.1 port 22"];
        for errand in [Errand::Agent("haul".to_owned()), Errand::Sftp] {
            let error = explain(Some(255), &lines, &login(false), &errand).error;
            assert_eq!(error.cause(), many);
            assert!(error.hint().unwrap_or_default().contains("IdentitiesOnly=yes"));
        }
        let error = explain(Some(255), &lines[1..], &login(false), &Errand::Sftp).error;
        assert_eq!(error.cause(), lines[1]);
    }
}
