//! rsync's rule about the trailing slash: where a source lands at the destination, and under which name.

use haul_core::{Location, Place, PlaceRoot};

use super::siblings::is_home;

/// What decides where a source lands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landing {
    /// The source's root is a directory.
    pub(crate) is_dir: bool,
    /// There are several sources.
    pub(crate) several: bool,
    /// The paths to copy are listed: they keep their place below the source, whose own name does not count.
    pub(crate) listed: bool,
}

/// The root of a source: always the path itself.
pub(crate) fn source_place(source: &Location) -> Place {
    Place { path: source.path().to_vec(), root: PlaceRoot::Exactly }
}

/// The root at the destination that corresponds to the root of `source`.
pub(crate) fn destination_place(source: &Location, destination: &Location, landing: Landing) -> Place {
    let path = destination.path().to_vec();
    let root = match root_name(source, landing) {
        None => return folder_place(destination),
        Some(name) if landing.is_dir || landing.several || destination.means_contents() => {
            PlaceRoot::Inside(name.to_vec())
        }
        Some(name) => PlaceRoot::InsideIfDir(name.to_vec()),
    };
    Place { path, root }
}

/// The folder at the destination that things go into. A symbolic link to a folder is as good; a file there is left
/// alone and nothing is copied.
pub(crate) fn folder_place(destination: &Location) -> Place {
    let mut path = destination.path().to_vec();
    // A slash says that it is a folder; at the end of nothing it would be another one.
    if !path.is_empty() && !path.ends_with(b"/") {
        path.push(b'/');
    }
    Place { path, root: PlaceRoot::Exactly }
}

/// The name that the source's root bears in the transfer; `None` where what is in it is meant.
pub(crate) fn root_name(source: &Location, landing: Landing) -> Option<&[u8]> {
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
    fn a_folder_lands_as_rsync_would_have_it() {
        let inside = |name: &str| PlaceRoot::Inside(name.as_bytes().to_vec());
        assert_eq!(root("a/b/", "dst", true, false), PlaceRoot::Exactly);
        assert_eq!(root(".", "dst", true, false), PlaceRoot::Exactly);
        assert_eq!(root("h:", "dst", true, false), PlaceRoot::Exactly);
        assert_eq!(root("h:~bob", "dst", true, false), PlaceRoot::Exactly);
        assert_eq!(root("a/b", "dst", true, false), inside("b"));
        assert_eq!(root("a/b", "h:dst/", true, true), inside("b"));
    }

    #[test]
    fn a_file_lands_as_rsync_would_have_it() {
        assert_eq!(root("a/f", "dst", false, false), PlaceRoot::InsideIfDir(b"f".to_vec()));
        assert_eq!(root("a/f", "dst/", false, false), PlaceRoot::Inside(b"f".to_vec()));
        assert_eq!(root("a/f", "h:", false, false), PlaceRoot::Inside(b"f".to_vec()));
        assert_eq!(root("a/f", "dst", false, true), PlaceRoot::Inside(b"f".to_vec()));
    }

    #[test]
    fn what_goes_into_a_folder_says_so() {
        let path = |end: &str| folder_place(&Location::parse(end.as_bytes()).unwrap()).path;
        assert_eq!(path("dst"), b"dst/");
        assert_eq!(path("h:dst/"), b"dst/");
        assert_eq!(path("h:"), b"");
        assert_eq!(path("h:~"), b"~/");
        assert_eq!(path("/"), b"/");
    }

    #[test]
    fn listed_paths_keep_their_place() {
        let [source, destination] = ["src", "dst"].map(|end| Location::parse(end.as_bytes()).unwrap());
        let landing = Landing { is_dir: true, several: false, listed: true };
        assert_eq!(destination_place(&source, &destination, landing).root, PlaceRoot::Exactly);
        assert_eq!(root_name(&source, landing), None);
    }
}
