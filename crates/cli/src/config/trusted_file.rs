//! Reads a settings file that nobody but its owner can change: its options choose programs that haul starts.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use haul_core::text::without_errno;

/// The most bytes that a settings file may have.
const MOST: u64 = 1 << 20;

/// The text of a file; `None` if it is missing. An error is one line that names the file.
pub(super) fn read(path: &Path) -> Result<Option<String>, String> {
    let failed = |cause: &dyn std::fmt::Display| format!("{}: {cause}", path.display());
    let system = |error: &io::Error| failed(&without_errno(&error.to_string()));
    // Without O_NONBLOCK a FIFO would block.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Err(failed(
                &"Permission denied; HOME or HAUL_CONFIG names another file, an empty HAUL_CONFIG none",
            ));
        }
        Err(error) => return Err(system(&error)),
    };
    check(&file).map_err(|error| system(&error))?.map_err(|cause| failed(&cause))?;
    let mut text = Vec::new();
    let _ = file.take(MOST + 1).read_to_end(&mut text).map_err(|error| system(&error))?;
    if text.len() as u64 > MOST {
        return Err(failed(&"it is larger than 1 MiB: it is not a settings file"));
    }
    String::from_utf8(text).map(Some).map_err(|_| failed(&"it is not UTF-8 text"))
}

/// Whether the file is a settings file that can be trusted.
fn check(file: &File) -> io::Result<Result<(), String>> {
    let about = file.metadata()?;
    let (user, owner) = (rustix::process::geteuid().as_raw(), about.uid());
    Ok(if !about.is_file() {
        Err("it is not a regular file".to_owned())
    } else if owner != user && owner != 0 {
        Err(format!("it belongs to user {owner}: settings must belong to you or to root"))
    } else if about.mode() & 0o022 != 0 {
        Err("others can change it, and its options start programs: run `chmod go-w` on it".to_owned())
    } else {
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_files_of_the_user_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        assert_eq!(read(&path), Ok(None));
        assert_eq!(read(&path.join("below")), Ok(None));
        fs::write(&path, "a").unwrap();
        let mode = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        assert_eq!(read(&path), Ok(Some("a".to_owned())));
        for bad in [0o664, 0o646] {
            mode(bad);
            assert!(read(&path).unwrap_err().contains("chmod go-w"), "{bad:o}");
        }
        mode(0o600);
        fs::write(&path, [0xff]).unwrap();
        assert!(read(&path).unwrap_err().contains("UTF-8"));
        fs::write(&path, vec![b'#'; (MOST + 1) as usize]).unwrap();
        assert!(read(&path).unwrap_err().contains("1 MiB"));
        assert!(read(dir.path()).unwrap_err().contains("regular file"));
    }
}
