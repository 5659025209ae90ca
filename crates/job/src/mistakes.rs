//! Common mistakes in a request, and the way out of each.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use haul_core::{Error, ErrorKind, Location, Place, PlaceRoot, Result, Side};

use super::errors::usage;
use super::place::dir_place;
use super::siblings::{is_home, with_path};

const NOT_A_DIRECTORY: &str = "it is a file, not a directory";

/// The error of a source or destination that does not exist.
#[must_use]
pub fn not_found(at: &Location, side: Side) -> Error {
    let missing = |cause| Error::new(ErrorKind::NotFound, side, "find", cause).on(at.to_string());
    if let Location::Local(path) = at
        && is_file(path)
    {
        return if path.ends_with(b"/") { file_with_slash(at, side) } else { missing(NOT_A_DIRECTORY) };
    }
    let error = missing("No such file or directory");
    let name = at.name();
    if !name.iter().any(|byte| matches!(byte, b'*' | b'?')) {
        return error;
    }
    error.with_hint(
        "haul expands no wildcards here: the shell does, unless they are quoted or no file matches; for files of a \
         whole tree see `haul help patterns`",
    )
}

/// The error of a file that is named with a slash at its end.
pub(crate) fn file_with_slash(at: &Location, side: Side) -> Error {
    let error = Error::new(ErrorKind::NotFound, side, "find", NOT_A_DIRECTORY).on(at.to_string());
    error.with_hint("omit the slash at its end")
}

/// Whether there is a file at a local path, which may end with a slash.
fn is_file(path: &[u8]) -> bool {
    let end = path.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    std::fs::metadata(OsStr::from_bytes(&path[..end])).is_ok_and(|found| found.is_file())
}

/// The error of a destination without the directory that a copy makes at `place`.
#[must_use]
pub fn missing_copy(destination: &Location, place: &Place) -> Error {
    match &place.root {
        PlaceRoot::Inside(name) => {
            let path = [&dir_place(destination).path[..], name].concat();
            let hint = "a source without a slash at its end is compared with the entry of its name in DST; SRC/ with DST";
            not_found(&with_path(destination, path), Side::Destination).with_hint(hint)
        }
        PlaceRoot::Exactly | PlaceRoot::InsideIfDir(_) => not_found(destination, Side::Destination),
    }
}

/// Refuses a unit that stands where a source is expected, as in `--bwlimit 10 MB src dst`.
///
/// # Errors
/// [`ErrorKind::Usage`].
pub(crate) fn refuse_unit(sources: &[Location]) -> Result<()> {
    let units = ["K", "M", "G", "T", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "Mbit", "Gbit"];
    let is_unit = |path: &[u8]| {
        let text = path.strip_suffix(b"/s").unwrap_or(path);
        units.iter().any(|unit| text.eq_ignore_ascii_case(unit.as_bytes()))
    };
    for source in sources {
        if let Location::Local(path) = source
            && is_unit(path)
            && !std::path::Path::new(&*String::from_utf8_lossy(path)).exists()
        {
            let cause = "there is no such file; write a unit together with its number, as in 10MB";
            return Err(usage("read the location", cause).on(source.to_string()));
        }
    }
    Ok(())
}

/// Refuses `-`, which stands for standard input or output in other programs.
///
/// # Errors
/// [`ErrorKind::Usage`].
pub(crate) fn refuse_dash(sources: &[Location], destination: &Location) -> Result<()> {
    let is_dash = |at: &&Location| matches!(at, Location::Local(path) if path == b"-");
    let advice = if is_dash(&destination) {
        "it is not standard output here: `haul get SRC` writes a stream; a file of this name is ./-"
    } else if sources.iter().any(|at| is_dash(&at)) {
        "it is not standard input here: `haul put DST` reads a stream; a file of this name is ./-"
    } else {
        return Ok(());
    };
    Err(usage("read the location", advice).on("-"))
}

/// A note for the user if a directory is copied to a place that the user may not expect.
pub(crate) fn surprise(source: &Location, destination: &Location, has_name: bool) -> Option<String> {
    if let Some(example) = inside_home(destination).filter(|_| !has_name) {
        return Some(format!(
            "the home directory {destination} gets mode, owner and times of {source}; a directory in it is {example}"
        ));
    }
    let same_name = has_name && !destination.means_contents() && source.name() == destination.name();
    same_name.then(|| {
        let name = String::from_utf8_lossy(source.name());
        format!("copies to {destination}/{name}; for {destination} itself, add a slash: {source}/")
    })
}

/// Refuses to sync the content of a source into a home directory that the command does not name, as in `host:`. The one of
/// `host:./` is meant.
///
/// # Errors
/// [`ErrorKind::Usage`].
pub(crate) fn refuse_home(sources: &[Location], destination: &Location) -> Result<()> {
    let into = sources.iter().any(|source| source.means_contents() || is_home(source));
    let is_named = destination.path().starts_with(b".");
    let Some(example) = inside_home(destination).filter(|_| into && !is_named) else { return Ok(()) };
    let cause = "it would remove everything else from the home directory, such as .ssh";
    let error = usage("sync to", cause).on(destination.to_string());
    // After a URL, ./ is the root directory.
    let itself = if is_url(destination) { "its full path" } else { "./ or its full path" };
    Err(error.with_hint(format!(
        "name a directory in it, as in {example}; {itself} means the home directory itself"
    )))
}

/// A directory in the home directory that a remote location is, as an example.
fn inside_home(at: &Location) -> Option<Location> {
    let home = home(at).filter(|_| matches!(at, Location::Ssh { .. } | Location::Sftp { .. }))?;
    // After a URL, a path without a tilde is absolute.
    let home = if home.is_empty() && is_url(at) { b"~" } else { home };
    let name = [home, if home.is_empty() { b"NAME" } else { b"/NAME" }].concat();
    Some(with_path(at, name))
}

/// Whether the location is written as a URL.
fn is_url(at: &Location) -> bool {
    at.to_string().contains("://")
}

/// The home directory that is the path of a remote location itself, as in `host:`, `host:.` and `host:~/`: its name with
/// a tilde, or nothing for that of the login.
fn home(at: &Location) -> Option<&[u8]> {
    let path = at.path();
    let mut parts = path.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
    let first = parts.next().unwrap_or_default();
    let is_home = !path.starts_with(b"/") && (first.is_empty() || first.starts_with(b"~"));
    (is_home && parts.next().is_none()).then_some(first)
}

/// An error of the end at `at`, which is on `side`: with its host, and with the way out if this user has no right. An
/// error of another side stays as it is.
#[must_use]
pub fn at_host(error: Error, side: Side, at: &Location) -> Error {
    if error.side() != side {
        return error;
    }
    let error = match named_at(at, error.subject()) {
        Some(subject) => error.on(subject),
        None => error,
    };
    match way_out(&error, side, at) {
        Some(hint) if error.hint().is_none() => error.with_hint(hint),
        _ => error,
    }
}

/// An error of looking at a destination before anything is written.
#[must_use]
pub fn at_destination(error: Error, at: &Location) -> Error {
    at_host(error.with_side(Side::Destination), Side::Destination, at)
}

/// The location of `path`, if the host of `at` has this name for an entry: an absolute one, or a relative one at or
/// below `at`.
fn named_at(at: &Location, path: &[u8]) -> Option<String> {
    if !matches!(at, Location::Ssh { .. } | Location::Sftp { .. }) {
        return None;
    }
    let host = with_path(at, Vec::new()).to_string();
    let root = at.path();
    let root = root.strip_suffix(b"/").unwrap_or(root);
    let is_below = match path.strip_prefix(root) {
        // In the home directory, which no URL names so. The path may have its host already.
        Some(_) if root.is_empty() => {
            host.ends_with(':') && !path.is_empty() && !path.starts_with(host.as_bytes())
        }
        Some(below) => below.is_empty() || below.starts_with(b"/"),
        None => false,
    };
    (path.starts_with(b"/") || is_below).then(|| with_path(at, path.to_vec()).to_string())
}

/// The advice for an end that refuses this user.
fn way_out(error: &Error, side: Side, at: &Location) -> Option<&'static str> {
    // Over a connection, an error has no number.
    if error.cause() == "Read-only file system" {
        return Some("choose a directory on another file system, or mount this one for writing");
    }
    // `Operation not permitted` has causes that concern root, too.
    if error.kind() != ErrorKind::PermissionDenied || error.cause() == "Operation not permitted" {
        return None;
    }
    // To remove an entry, a user needs to write to its directory.
    let is_read = side == Side::Source && error.operation() != "remove";
    Some(match at {
        Location::Ssh { .. } if is_read => {
            "log in as a user who may read it (USER@HOST:PATH), or read there as root with --remote-haul 'sudo haul', \
             if haul is there"
        }
        Location::Sftp { .. } if is_read => "log in as a user who may read it (sftp://USER@HOST/PATH)",
        Location::Smb { .. } if is_read => "log in as a user who may read it, with --smb-credentials FILE",
        Location::Local(_) if is_read => {
            "run haul as a user who may read it, such as the owner, or with sudo"
        }
        Location::Ssh { .. } => {
            "log in as a user who may write there (USER@HOST:PATH), or write there as root with --remote-haul 'sudo \
             haul', if haul is there"
        }
        Location::Sftp { .. } => {
            "log in as a user who may write there (sftp://USER@HOST/PATH), or choose another directory"
        }
        Location::Local(_) => {
            "run haul as a user who may write there, such as the owner of the directory, or with sudo; or choose \
             another directory"
        }
        Location::Smb { .. } => {
            "log in as a user who may write there, with --smb-credentials FILE, or is the share itself read-only?"
        }
        Location::Object(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Location {
        Location::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_missing_wildcard_is_explained() {
        assert!(not_found(&at("h:/x/f*"), Side::Source).hint().unwrap().contains("the shell does"));
        assert_eq!(not_found(&at("h:/x/f"), Side::Source).hint(), None);
    }

    #[test]
    fn a_file_in_the_place_of_a_directory_is_told() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let told = |end: &str| not_found(&at(&format!("{}{end}", file.path().display())), Side::Source);
        assert_eq!(told("").cause(), "it is a file, not a directory");
        assert_eq!(told("//").hint(), Some("omit the slash at its end"));
        assert_eq!(told("/x").cause(), "No such file or directory");
    }

    #[test]
    fn a_missing_copy_is_named_where_it_would_be() {
        let missing = |destination: &str, root: PlaceRoot| {
            let place = Place { path: Vec::new(), root };
            missing_copy(&at(destination), &place).subject().to_vec()
        };
        let inside = || PlaceRoot::Inside(b"src".to_vec());
        for (destination, shown) in [("d", "d/src"), ("d/", "d/src"), ("h:/d", "h:/d/src"), ("h:", "h:src")] {
            assert_eq!(missing(destination, inside()), shown.as_bytes());
        }
        assert_eq!(missing("d/", PlaceRoot::Exactly), b"d/");
    }

    #[test]
    fn a_unit_is_no_source() {
        let refused =
            |sources: &[&str]| refuse_unit(&sources.iter().map(|one| at(one)).collect::<Vec<_>>()).is_err();
        assert!(refused(&["MB", "src"]) && refused(&["src", "mbit/s"]));
        assert!(!refused(&["src", "h:MB", "./MB", "10"]));
    }

    #[test]
    fn a_home_directory_is_synced_into_only_by_its_path() {
        let is_refused =
            |source: &str, destination: &str| refuse_home(&[at(source)], &at(destination)).is_err();
        assert!(is_refused("src/", "h:") && is_refused("src/.", "h:~/") && is_refused("g:", "sftp://h/~"));
        let hint =
            |at_home: &str| refuse_home(&[at("src/")], &at(at_home)).unwrap_err().hint().unwrap().to_owned();
        assert!(
            hint("h:").contains("; ./ or its full path") && hint("sftp://h/~").contains("; its full path")
        );
        assert!(!is_refused("src/", "h:./") && !is_refused("src/", "h:."));
        assert!(
            !is_refused("src", "h:") && !is_refused("src/", "h:src") && !is_refused("src/", "h:/home/me/")
        );
        assert!(!is_refused("src/", "~") && !is_refused("src/", "./"));
    }

    #[test]
    fn surprising_destinations_are_noted() {
        let note = |source: &str, destination: &str, has_name| {
            surprise(&at(source), &at(destination), has_name).unwrap_or_default()
        };
        assert!(note("/srv/share", "h:/srv/share", true).contains("h:/srv/share/share"));
        assert!(note("/srv/share", "h:/srv/", true).is_empty());
        assert!(note("/srv/share/", "h:/srv/share", false).is_empty());
        for home in ["h:", "h:.", "h:./", "h:././", "h:~", "h:~/", "h:~/.", "sftp://h", "sftp://h/~"] {
            let said = note("src/", home, false);
            assert!(
                said.starts_with("the home directory") && said.contains("mode, owner and times"),
                "{home}"
            );
        }
        assert!(note("src/", "h:.", false).ends_with(" h:NAME"));
        assert!(note("src/", "sftp://h", false).ends_with(" sftp://h/~/NAME"));
        assert!(note("src/", "h:~bob/", false).ends_with(" h:~bob/NAME"));
        for other in ["h:/", "h:/.", "h:./x", "h:x/.", "h:~/x", "./", "."] {
            assert!(note("src/", other, false).is_empty(), "{other}");
        }
        assert!(note("src", "h:", true).is_empty() && note("src/", "h:x", false).is_empty());
    }

    #[test]
    fn errors_of_a_remote_end_name_the_host() {
        let at_host = |error, at: &Location| super::at_host(error, Side::Destination, at);
        let error = Error::new(ErrorKind::PermissionDenied, Side::Destination, "write to", "no").on("/x");
        let there = at_host(error.clone(), &at("h:/x"));
        assert_eq!(there.to_string(), "failed to write to `h:/x` (destination): no");
        assert!(there.hint().is_some());
        let there = at_host(error.clone(), &at("sftp://u@h:22/x"));
        assert_eq!(there.to_string(), "failed to write to `sftp://u@h:22/x` (destination): no");
        assert!(there.hint().unwrap_or_default().contains("sftp://USER@HOST"));
        let here = at_host(error.clone(), &at("/x"));
        assert!(here == error.clone().with_hint(here.hint().unwrap_or_default()));
        assert!(here.hint().unwrap_or_default().contains("sudo"));
        let own = error.clone().with_hint("other");
        assert_eq!(at_host(own.clone(), &at("/x")), own);
        let source = error.with_side(Side::Source);
        assert_eq!(at_host(source.clone(), &at("h:/x")), source);
        let read = super::at_host(source, Side::Source, &at("h:/x"));
        assert_eq!(read.to_string(), "failed to write to `h:/x` (source): no");
        assert!(read.hint().unwrap_or_default().contains("read there as root"));
    }

    #[test]
    fn an_entry_is_named_with_the_host_that_has_it() {
        let named = |location: &str, path: &str| named_at(&at(location), path.as_bytes());
        for (location, path, expected) in [
            ("h:rel/", "rel", "h:rel"),
            ("h:rel/", "rel/f", "h:rel/f"),
            ("h:", "f", "h:f"),
            ("h:/srv", "/home/x", "h:/home/x"),
            ("sftp://u@h:22/srv", "/srv/f", "sftp://u@h:22/srv/f"),
        ] {
            assert_eq!(named(location, path).as_deref(), Some(expected), "{location} {path}");
        }
        for (location, path) in
            [("h:rel/", "relative"), ("h:rel", "f"), ("h:", "h:f"), ("h:", ""), ("/a", "/a")]
        {
            assert_eq!(named(location, path), None, "{location} {path}");
        }
    }
}
