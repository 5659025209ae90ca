//! Which program is uploaded: the running one, or the one that is installed beside it for another architecture.

use std::io;
use std::path::{Path, PathBuf};

use haul_core::digest::hex;

/// The system and architecture of a host, as `uname -sm` prints them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct System {
    pub(super) name: String,
    pub(super) machine: String,
}

impl System {
    /// That of this host.
    pub(super) fn here() -> Self {
        let uname = rustix::system::uname();
        let text = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        Self { name: text(uname.sysname()), machine: text(uname.machine()) }
    }

    /// Reads `NAME MACHINE`. The machine becomes part of a file name, so it has only letters, digits and `_`.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (name, machine) = text.split_once(' ')?;
        let plain = |word: &str| {
            !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        (plain(name) && plain(machine)).then(|| Self { name: name.to_owned(), machine: machine.to_owned() })
    }
}

/// A program to upload.
pub(super) struct Program {
    pub(super) content: Vec<u8>,
    /// Its name in the remote cache.
    pub(super) name: String,
    sum: String,
}

impl Program {
    fn new(content: Vec<u8>) -> Self {
        let digest = blake3::hash(&content).to_hex();
        let name = format!("haul-{}-{}", env!("CARGO_PKG_VERSION"), &digest[..16]);
        let sum = hex(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &content).as_ref());
        Self { content, name, sum }
    }

    /// The line that tells the remote script about it.
    pub(super) fn told(&self) -> String {
        format!("{} {} {} {}\n", self.name, self.sum, self.content.len(), env!("CARGO_PKG_VERSION"))
    }
}

/// Where the program for another architecture is looked for: beside the running program, and where packages install it.
pub(super) fn places(running: &Path, machine: &str) -> [PathBuf; 2] {
    let dir = running.parent().unwrap_or(Path::new("/"));
    let name = format!("haul-{machine}");
    [dir.join(&name), dir.parent().unwrap_or(dir).join("lib/haul").join(name)]
}

/// Reads the program for `system`; `None` if there is none here.
///
/// # Errors
/// If a program that exists cannot be read.
pub(super) fn find(system: &System) -> io::Result<Option<Program>> {
    let here = System::here();
    if *system == here {
        return std::fs::read("/proc/self/exe").map(|content| Some(Program::new(content)));
    }
    if system.name != here.name {
        return Ok(None);
    }
    for place in places(&std::env::current_exe()?, &system.machine) {
        match std::fs::read(&place) {
            Ok(content) => return Ok(Some(Program::new(content))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", place.display()))),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_could_leave_the_directory_is_refused() {
        for bad in ["Linux ../../x", "Linux a b", "Linux", "Linux ", " x86_64", "Linux a\0b", "Linux .", ""] {
            assert_eq!(System::parse(bad), None, "{bad}");
        }
        let system = System::parse("Linux aarch64").unwrap();
        assert_eq!((&system.name[..], &system.machine[..]), ("Linux", "aarch64"));
    }

    #[test]
    fn the_program_of_another_architecture_is_where_packages_install_it() {
        let places = places(Path::new("/usr/bin/haul"), "aarch64");
        assert_eq!(places, [Path::new("/usr/bin/haul-aarch64"), Path::new("/usr/lib/haul/haul-aarch64")]);
    }

    #[test]
    fn this_system_gets_the_running_program_and_another_system_none() {
        let running = find(&System::here()).unwrap().unwrap();
        assert!(running.content == std::fs::read(std::env::current_exe().unwrap()).unwrap());
        assert!(running.told().ends_with(&format!(
            " {} {}\n",
            running.content.len(),
            env!("CARGO_PKG_VERSION")
        )));
        let other = System { name: "Plan9".to_owned(), machine: System::here().machine };
        assert!(find(&other).unwrap().is_none());
        let other = System { name: System::here().name, machine: "pdp11".to_owned() };
        assert!(find(&other).unwrap().is_none());
    }
}
