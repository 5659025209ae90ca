//! Which program is uploaded: the static one of a release for that architecture, or the running one.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use haul_core::digest::hex;

/// The digests of a release, beside its programs.
pub(super) const SUMS: &str = "SHA256SUMS";

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
pub(super) struct UploadProgram {
    pub(super) content: Vec<u8>,
    /// Its name in the remote cache.
    pub(super) name: String,
    /// The file that it was read from; `None` if it is the running program.
    pub(super) place: Option<PathBuf>,
    sum: String,
}

impl UploadProgram {
    fn new(content: Vec<u8>, place: Option<PathBuf>) -> Self {
        let digest = blake3::hash(&content).to_hex();
        let name = format!("haul-{}-{}", env!("CARGO_PKG_VERSION"), &digest[..16]);
        let sum = hex(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &content).as_ref());
        Self { content, name, place, sum }
    }

    /// The line that tells the remote script about it.
    pub(super) fn told(&self) -> String {
        format!("{} {} {} {}\n", self.name, self.sum, self.content.len(), env!("CARGO_PKG_VERSION"))
    }
}

/// Where a program of a release is looked for: beside the running program, and where packages install programs.
pub(super) fn places(running: &Path, machine: &str) -> [PathBuf; 2] {
    let dir = running.parent().unwrap_or(Path::new("/"));
    let name = format!("haul-{machine}");
    [dir.join(&name), dir.parent().unwrap_or(dir).join("lib/haul").join(name)]
}

/// Reads the program for `system`; `None` if there is none here.
///
/// A program of a release comes first, for the architecture of this host too: it is static, and runs where the running
/// program may lack its C library.
///
/// # Errors
/// If a program that exists cannot be read, or is not the one that `SHA256SUMS` beside it records.
pub(super) fn find(system: &System) -> Result<Option<UploadProgram>, String> {
    let running = std::env::current_exe().map_err(|error| format!("the running program: {error}"))?;
    find_for(system, &running)
}

fn find_for(system: &System, running: &Path) -> Result<Option<UploadProgram>, String> {
    let here = System::here();
    if system.name != here.name {
        return Ok(None);
    }
    for place in places(running, &system.machine) {
        match std::fs::read(&place) {
            Ok(content) => return verified(content, place).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(format!("{}: {error}", place.display())),
        }
    }
    if system.machine != here.machine {
        return Ok(None);
    }
    // This is the program even if another one has replaced its file.
    let content = std::fs::read("/proc/self/exe").map_err(|error| format!("the running program: {error}"))?;
    Ok(Some(UploadProgram::new(content, None)))
}

/// The program at `place`, if it has the digest that is recorded beside it.
fn verified(content: Vec<u8>, place: PathBuf) -> Result<UploadProgram, String> {
    let shown = place.display().to_string();
    let sums = place.with_file_name(SUMS);
    let mut text = String::new();
    let read = std::fs::File::open(&sums).and_then(|file| file.take(1 << 20).read_to_string(&mut text));
    if let Err(error) = read {
        return Err(format!("{shown} is not used, as its digest is unknown: {}: {error}", sums.display()));
    }
    let name = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let program = UploadProgram::new(content, Some(place));
    match recorded(&text, &name) {
        Some(sum) if sum.eq_ignore_ascii_case(&program.sum) => Ok(program),
        Some(_) => Err(format!("{shown} is not used, as it differs from the record in {}", sums.display())),
        None => Err(format!("{shown} is not used, as {} does not record it", sums.display())),
    }
}

/// The digest of the file `name` in the output of `sha256sum`.
fn recorded<'a>(sums: &'a str, name: &str) -> Option<&'a str> {
    sums.lines().find_map(|line| {
        let (sum, file) = line.split_once(' ')?;
        (file.strip_prefix([' ', '*'])? == name).then_some(sum)
    })
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
    fn the_program_of_an_architecture_is_where_packages_install_it() {
        let places = places(Path::new("/usr/bin/haul"), "aarch64");
        assert_eq!(places, [Path::new("/usr/bin/haul-aarch64"), Path::new("/usr/lib/haul/haul-aarch64")]);
    }

    #[test]
    fn this_system_gets_the_running_program_and_another_system_none() {
        let running = find(&System::here()).unwrap().unwrap();
        assert!(running.content == std::fs::read(std::env::current_exe().unwrap()).unwrap());
        assert!(running.place.is_none());
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

    #[test]
    fn a_program_of_a_release_is_used_if_its_digest_is_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let running = dir.path().join("bin/haul");
        let lib = dir.path().join("lib/haul");
        std::fs::create_dir_all(&lib).unwrap();
        for machine in ["pdp11".to_owned(), System::here().machine] {
            let system = System { name: System::here().name, machine };
            let place = lib.join(format!("haul-{}", system.machine));
            std::fs::write(&place, "abc").unwrap();
            let cause = |sums: &str| {
                std::fs::write(lib.join(SUMS), sums).unwrap();
                find_for(&system, &running).map(drop).unwrap_err()
            };
            let _ = std::fs::remove_file(lib.join(SUMS));
            assert!(find_for(&system, &running).map(drop).unwrap_err().contains("its digest is unknown"));
            let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
            let name = format!("haul-{}", system.machine);
            assert!(cause("").contains("does not record it"));
            assert!(cause(&format!("{sum}  {name}.old\n")).contains("does not record it"));
            let changed = cause(&format!("{}  {name}\n", sum.replace('b', "c")));
            assert!(changed.contains(&place.display().to_string()), "{changed}");
            assert!(changed.contains("it differs from the record"), "{changed}");
            for line in [format!("{sum}  {name}\n"), format!("x\n{} *{name}", sum.to_uppercase())] {
                std::fs::write(lib.join(SUMS), line).unwrap();
                let found = find_for(&system, &running).unwrap().unwrap();
                assert_eq!((found.content, found.place), (b"abc".to_vec(), Some(place.clone())));
            }
        }
    }
}
