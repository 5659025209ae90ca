//! rsync's rule of the trailing slash: the path and name of a source at the destination.

use haul_core::{Location, Place, PlaceRoot};

use super::siblings::is_home;

/// The properties of a source that decide its path at the destination.
#[derive(Clone, Copy, Debug)]
pub struct Landing {
    /// The source's root is a directory.
    pub is_dir: bool,
    /// There are several sources.
    pub several: bool,
    /// The paths to copy come from a list: they keep their path below the source, whose own name is dropped.
    pub listed: bool,
}

/// The place of a source: always its path itself.
pub fn source_place(source: &Location) -> Place {
    Place { path: source.path().to_vec(), root: PlaceRoot::Exactly }
}

/// The place at the destination that corresponds to the root of `source`.
pub fn destination_place(source: &Location, destination: &Location, landing: Landing) -> Place {
    let path = destination.path().to_vec();
    let root = match root_name(source, landing) {
        None => return dir_place(destination),
        Some(name) if landing.is_dir || landing.several || destination.means_contents() => {
            PlaceRoot::Inside(name.to_vec())
        }
        Some(name) => PlaceRoot::InsideIfDir(name.to_vec()),
    };
    Place { path, root }
}

/// The destination as a directory to copy into. It may be a symbolic link to a directory; a file there is not replaced,
/// and nothing is copied.
pub(crate) fn dir_place(destination: &Location) -> Place {
    let mut path = destination.path().to_vec();
    // The slash requires a directory. After an empty path it would mean the root directory.
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    Place { path, root: PlaceRoot::Exactly }
}

/// The name of the source's root in the transfer; `None` if the contents of the source are copied.
pub fn root_name(source: &Location, landing: Landing) -> Option<&[u8]> {
    let nameless = landing.listed || source.means_contents() || is_home(source);
    (!nameless).then(|| source.name())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(source: &str, destination: &str, is_dir: bool, several: bool) -> PlaceRoot {
        let [source, destination] = [source, destination].map(|end| Location::parse(end.as_bytes()).unwrap());
        destination_place(&source, &destination, Landing { is_dir, several, listed: false }).root
    }

    #[test]
    fn a_directory_lands_as_in_rsync() {
        let inside = |name: &str| PlaceRoot::Inside(name.as_bytes().to_vec());
        assert_eq!(root("a/b/", "dst", true, false), PlaceRoot::Exactly);
        assert_eq!(root(".", "dst", true, false), PlaceRoot::Exactly);
        assert_eq!(root("h:", "dst", true, false), PlaceRoot::Exactly);
        assert_eq!(root("h:~bob", "dst", true, false), PlaceRoot::Exactly);
        assert_eq!(root("a/b", "dst", true, false), inside("b"));
        assert_eq!(root("a/b", "h:dst/", true, true), inside("b"));
    }

    #[test]
    fn a_file_lands_as_in_rsync() {
        assert_eq!(root("a/f", "dst", false, false), PlaceRoot::InsideIfDir(b"f".to_vec()));
        assert_eq!(root("a/f", "dst/", false, false), PlaceRoot::Inside(b"f".to_vec()));
        assert_eq!(root("a/f", "h:", false, false), PlaceRoot::Inside(b"f".to_vec()));
        assert_eq!(root("a/f", "dst", false, true), PlaceRoot::Inside(b"f".to_vec()));
    }

    #[test]
    fn the_path_of_a_directory_ends_in_a_slash() {
        let path = |end: &str| dir_place(&Location::parse(end.as_bytes()).unwrap()).path;
        assert_eq!(path("dst"), b"dst/");
        assert_eq!(path("h:dst/"), b"dst/");
        assert_eq!(path("h:"), b"");
        assert_eq!(path("h:~"), b"~/");
        assert_eq!(path("/"), b"/");
    }

    #[test]
    fn listed_paths_keep_their_path() {
        let [source, destination] = ["src", "dst"].map(|end| Location::parse(end.as_bytes()).unwrap());
        let landing = Landing { is_dir: true, several: false, listed: true };
        assert_eq!(destination_place(&source, &destination, landing).root, PlaceRoot::Exactly);
        assert_eq!(root_name(&source, landing), None);
    }
}
