//! The settings of sshd, as printed by `sshd -T`, which only root can run as it reads the host keys.

use std::collections::BTreeMap;
use std::io::Read;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Where sshd may be: it must be called by its full path, which is seldom in `PATH`.
const PLACES: [&str; 3] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd", "/usr/bin/sshd"];
/// The settings that limit the connections of a client and their use.
const WANTED: [&str; 7] = [
    "maxstartups",
    "maxsessions",
    "persourcemaxstartups",
    "persourcepenalties",
    "compression",
    "allowtcpforwarding",
    "clientaliveinterval",
];
/// The timeout of the command.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The settings of the installed sshd; empty if they may not be read.
pub(super) fn settings() -> BTreeMap<String, String> {
    if !rustix::process::geteuid().is_root() {
        return BTreeMap::new();
    }
    PLACES.iter().find_map(|place| ask(place)).map(|text| parse(&text)).unwrap_or_default()
}

fn ask(program: &str) -> Option<String> {
    let mut child = Command::new(program)
        .arg("-T")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let until = Instant::now() + TIMEOUT;
    // Its output of a few kilobytes fits into the pipe.
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut text = String::new();
    child.stdout.take()?.read_to_string(&mut text).ok()?;
    Some(text)
}

fn parse(text: &str) -> BTreeMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.split_once(' '));
    let wanted = pairs.filter(|(name, _)| WANTED.contains(name));
    wanted.map(|(name, value)| (name.to_owned(), value.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed() {
        let text = "port 22\nmaxstartups 10:30:100\nmaxsessions 10\npersourcepenalties crash:90 authfail:5\n";
        let settings = parse(text);
        assert_eq!(settings["maxstartups"], "10:30:100");
        assert_eq!(settings["persourcepenalties"], "crash:90 authfail:5");
        assert!(!settings.contains_key("port"));
    }
}
