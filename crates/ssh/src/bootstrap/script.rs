//! The script that runs on the remote host.

/// The prefix of the script's lines, as a login shell may print other lines.
pub(super) const MARK: &str = "haul-bootstrap:";

/// The script. It reports `system NAME MACHINE`, and reads `NAME SHA256 LENGTH RELEASE` of the program.
///
/// It removes a received program before it reports that the program is of no use: the local end may then end it at
/// once.
///
/// It is one word in single quotes, which every login shell passes on unchanged, so it contains none.
pub(super) fn script() -> String {
    // The names of uploaded programs and of their temporary files, as a regular expression for `expr`.
    let ours = r"haul-[0-9][0-9]*[.][0-9][0-9]*[.][0-9][0-9A-Za-z.+-]*-[0-9a-f]\{16\}";
    let script = format!(
        "say() {{ echo \"{MARK} $*\"; }}; \
         lose() {{ rm -f \"$part\"; say \"$*\"; exit 1; }}; \
         right() {{ \
         [ $(($(wc -c <\"$1\"))) -eq \"$len\" ] || return 1; \
         sum=\"$(sha256sum <\"$1\" 2>/dev/null || shasum -a 256 <\"$1\" 2>/dev/null \
         || openssl dgst -sha256 -r <\"$1\" 2>/dev/null)\"; \
         if [ -n \"$sum\" ]; then case \"$sum\" in \"$want\"*) return 0;; esac; return 1; fi; \
         say content; cat \"$1\"; read -r answer && [ \"$answer\" = right ]; \
         }}; \
         tidy() {{ \
         running=\"$(ls -l /proc/[0-9]*/exe 2>/dev/null)\"; \
         for old in haul-*; do \
         if [ \"$old\" = \"$name\" ] || [ -L \"$old\" ]; then continue; fi; \
         if expr \"$old\" : \"{ours}[.][0-9][0-9]*[.]part\\$\" >/dev/null; then \
         pid=\"${{old%.part}}\"; kill -0 \"${{pid##*.}}\" 2>/dev/null && continue; \
         else expr \"$old\" : \"{ours}\\$\" >/dev/null || continue; \
         case \"$running\" in *\"/$old\"*) continue;; esac; fi; \
         [ -n \"$(find \"./$old\" -prune -type f -mtime +0 2>/dev/null)\" ] && rm -f \"./$old\"; \
         done; \
         }}; \
         well() {{ touch -c \"$name\"; say ready; tidy; exit 0; }}; \
         say system $(uname -sm); \
         read -r name want len release && [ -n \"$release\" ] || exit 0; \
         umask 077; \
         dir=\"$HOME/.cache/haul\"; \
         if mkdir -p \"$dir\" && cd \"$dir\" && chmod 700 .; then :; \
         else say \"~/.cache/haul cannot be made there\"; exit 1; fi; \
         if [ -f \"$name\" ]; then \
         right \"$name\" && chmod 700 \"$name\" && ./\"$name\" --version >/dev/null 2>&1 && well; rm -f \"$name\"; fi; \
         say absent; \
         read -r go && [ \"$go\" = send ] || exit 0; \
         part=\"$name.$$.part\"; \
         trap \"rm -f $part\" EXIT HUP PIPE TERM; \
         rm -f \"$part\"; \
         head -c \"$len\" >\"$part\" || lose \"it could not be written there\"; \
         right \"$part\" || lose \"it did not arrive as it was sent\"; \
         chmod 700 \"$part\"; \
         said=\"$(./\"$part\" --version 2>&1)\" || lose broken \"$said\"; \
         [ \"$said\" = \"haul $release\" ] || lose other \"$said\"; \
         mv -f \"$part\" \"$name\" && well"
    );
    format!("exec sh -c '{script}'")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_one_word_for_any_shell() {
        let script = script();
        assert_eq!(script.matches('\'').count(), 2);
        assert!(!script.contains(['\n', '!']));
        let parsed = std::process::Command::new("sh").args(["-n", "-c", &script]).status().unwrap();
        assert!(parsed.success());
        let inner = script.strip_prefix("exec sh -c '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
        let parsed = std::process::Command::new("sh").args(["-n", "-c", inner]).status().unwrap();
        assert!(parsed.success(), "{inner}");
    }

    #[test]
    fn a_program_that_is_of_no_use_is_removed_before_that_is_reported() {
        use std::io::{BufRead, BufReader, Write};
        let home = tempfile::tempdir().unwrap();
        let content = "exit 1\n";
        let sum = haul_core::digest::hex(
            aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, content.as_bytes()).as_ref(),
        );
        let mut command = std::process::Command::new("sh");
        command.args(["-c", &script()]).env("HOME", home.path());
        let mut shell =
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        let name = "haul-1.2.3-0123456789abcdef";
        write!(input, "{name} {sum} {} 1.2.3\nsend\n{content}", content.len()).unwrap();
        let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines().map(Result::unwrap);
        let reported = lines.find(|line| line.starts_with("haul-bootstrap: broken"));
        assert!(reported.is_some());
        assert_eq!(std::fs::read_dir(home.path().join(".cache/haul")).unwrap().count(), 0);
        assert!(!shell.wait().unwrap().success());
    }
}
