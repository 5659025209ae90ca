//! The events of one part of a job as events of the whole: names as in the transfer, counts added to those of the parts
//! before.

use haul_core::event::{Content, Done};
use haul_core::{Error, Event, Location, Progress, RelPath, Reporter, Side, Totals};
use haul_store::Bill;

use super::mistakes::at_host;
use super::observer::Observer;

/// Converts the engine's events on one source.
pub struct PartReporter<'a> {
    /// Receives the converted events.
    pub observer: &'a dyn Observer,
    /// The name of the source's root in the transfer; empty if it has none.
    pub root_name: &'a [u8],
    /// The location of the source.
    pub source: Option<&'a Location>,
    /// The location of the destination.
    pub destination: Option<&'a Location>,
    /// The totals of the parts before.
    pub before: Totals,
    /// This is the last part.
    pub last: bool,
    /// Paths come from a list: a failure at the root is a failure of a line of the list, which the error names.
    pub listed: bool,
    /// In a dry run, counts the requests that a store would get.
    pub bill: Option<&'a Bill>,
}

impl PartReporter<'_> {
    /// The name of a path of this part in the transfer.
    pub fn name(&self, path: &RelPath) -> Vec<u8> {
        self.name_of(path.as_bytes())
    }

    fn name_of(&self, path: &[u8]) -> Vec<u8> {
        match (self.root_name, path) {
            (root, []) => root.to_vec(),
            ([], path) => path.to_vec(),
            (root, path) => [root, b"/", path].concat(),
        }
    }

    fn full(&self, error: &Error, then: &str) {
        let named = match self.destination {
            Some(at) => at_host((*error).clone(), Side::Destination, at),
            None => (*error).clone(),
        };
        let hint = named.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
        self.observer.warn(&format!("the destination is full: {named}{hint}; {then}"));
    }

    fn failed(&self, name: &[u8], error: &Error) {
        let at = match error.side() {
            Side::Source => self.source,
            Side::Destination => self.destination,
            Side::Wire | Side::Local => None,
        };
        match at {
            Some(at) => self.observer.failed(name, &at_host(error.clone(), error.side(), at)),
            None => self.observer.failed(name, error),
        }
    }
}

impl Reporter for PartReporter<'_> {
    fn event(&self, event: &Event<'_>) {
        match event {
            Event::Progress(progress) => {
                let mut totals = self.before;
                totals.add(&progress.totals);
                let scan_done = progress.scan_done && self.last;
                // Only the end of the last part is the end.
                let eta_seconds = progress.eta_seconds.filter(|seconds| self.last || *seconds > 0.0);
                let eta_is_lower_bound = progress.eta_is_lower_bound || !self.last;
                let eta_is_extrapolated = progress.eta_is_extrapolated && self.last;
                let progress = Progress {
                    totals,
                    scan_done,
                    eta_seconds,
                    eta_is_lower_bound,
                    eta_is_extrapolated,
                    to_remove: progress.to_remove.map(|all| all + self.before.removed),
                    ..*progress
                };
                self.observer.progress(&progress);
            }
            Event::InFlight(path) => self.observer.in_flight(&self.name(path)),
            Event::Entry { path, done } => {
                self.bill.iter().for_each(|bill| bill.entry(done.action, done.len));
                let first_name;
                let content = match done.content {
                    Content::OfName(path) => {
                        first_name = self.name_of(path);
                        Content::OfName(&first_name)
                    }
                    content => content,
                };
                self.observer.entry(&self.name(path), Done { content, ..*done });
            }
            Event::Failed(failure) if self.listed && failure.path.is_root() || failure.has_no_path() => {
                self.failed(failure.error.subject(), &failure.error);
            }
            Event::Failed(failure) => self.failed(&self.name(&failure.path), &failure.error),
            Event::BadPage(bad) => self.observer.bad_page(&self.name(&bad.path), bad.page),
            Event::Note(text) => self.observer.note(text),
            Event::Warning(text) => self.observer.warn(text),
            Event::Full { error, then } => self.full(error, then),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use haul_core::event::Action;
    use haul_core::{Changes, Digest, ErrorKind, Failure};

    use super::*;

    #[derive(Default)]
    struct SeenTexts(Mutex<Vec<String>>);

    impl SeenTexts {
        fn add(&self, text: String) {
            self.0.lock().unwrap().push(text);
        }
    }

    impl Observer for SeenTexts {
        fn progress(&self, progress: &Progress) {
            let Progress { totals, scan_done, eta_seconds, eta_is_lower_bound, .. } = progress;
            self.add(format!("{} {scan_done} {eta_seconds:?} {eta_is_lower_bound}", totals.found));
        }

        fn in_flight(&self, name: &[u8]) {
            self.add(format!("in flight {}", String::from_utf8_lossy(name)));
        }

        fn entry(&self, name: &[u8], done: Done<'_>) {
            let name = String::from_utf8_lossy(name);
            self.add(match done.content {
                Content::Unknown => name.into_owned(),
                Content::Digest(digest) => format!("{name} {digest}"),
                Content::OfName(first) => format!("{name} is {}", String::from_utf8_lossy(first)),
            });
        }

        fn failed(&self, name: &[u8], error: &Error) {
            let [name, subject] = [name, error.subject()].map(String::from_utf8_lossy);
            self.add(format!("failed {name}: {subject}"));
        }

        fn note(&self, text: &str) {
            self.add(text.to_owned());
        }

        fn warn(&self, text: &str) {
            self.add(text.to_owned());
        }
    }

    fn reporter(seen: &SeenTexts, listed: bool) -> PartReporter<'_> {
        let before = Totals { found: 5, ..Totals::default() };
        PartReporter {
            observer: seen,
            root_name: b"src",
            source: None,
            destination: None,
            before,
            last: false,
            listed,
            bill: None,
        }
    }

    #[test]
    fn names_and_counts_are_those_of_the_whole() {
        let seen = SeenTexts::default();
        let reporter = reporter(&seen, false);
        let path = RelPath::new(b"a").unwrap();
        let digest = Digest([0xab; 32]);
        for content in [Content::Unknown, Content::Digest(digest), Content::OfName(b"b")] {
            let (action, changes) = (Action::Copied, Changes::NEW);
            let done = Done { action, kind: None, changes, len: 1, content };
            reporter.event(&Event::Entry { path: &path, done });
        }
        reporter.event(&Event::InFlight(&path));
        let totals = Totals { found: 2, ..Totals::default() };
        let at_end = Progress { totals, scan_done: true, eta_seconds: Some(0.0), ..Progress::default() };
        reporter.event(&Event::Progress(at_end));
        PartReporter { last: true, ..reporter }.event(&Event::Progress(at_end));
        assert_eq!(
            *seen.0.lock().unwrap(),
            [
                "src/a",
                &format!("src/a {digest}"),
                "src/a is src/b",
                "in flight src/a",
                "7 false None true",
                "7 true Some(0.0) false"
            ]
        );
    }

    #[test]
    fn a_failed_line_of_a_list_is_named_by_its_error() {
        let seen = SeenTexts::default();
        let error = Error::new(ErrorKind::NotFound, Side::Source, "copy", "no").on("../x");
        let failure = Failure { path: RelPath::root(), error };
        reporter(&seen, true).event(&Event::Failed(&failure));
        reporter(&seen, false).event(&Event::Failed(&failure));
        assert_eq!(*seen.0.lock().unwrap(), ["failed ../x: ../x", "failed src: ../x"]);
    }

    #[test]
    fn an_error_at_a_host_names_the_host() {
        let shown = |at: &str, side, subject: &str| {
            let seen = SeenTexts::default();
            let at = Location::parse(at.as_bytes()).unwrap();
            let error = Error::new(ErrorKind::PermissionDenied, side, "open", "no").on(subject);
            let failure = Failure { path: RelPath::new(b"f").unwrap(), error };
            let reporter = PartReporter { source: Some(&at), ..reporter(&seen, false) };
            reporter.event(&Event::Failed(&failure));
            seen.0.into_inner().unwrap().remove(0)
        };
        for at in ["h:/x", "h:/x/"] {
            assert_eq!(shown(at, Side::Source, "/x/f"), "failed src/f: h:/x/f");
            assert_eq!(shown(at, Side::Source, "/xf"), "failed src/f: h:/xf", "also elsewhere on that host");
            assert_eq!(shown(at, Side::Source, "xf"), "failed src/f: xf", "no path there");
            assert_eq!(shown(at, Side::Destination, "/x/f"), "failed src/f: /x/f", "of the other end");
        }
        assert_eq!(shown("h:/", Side::Source, "/f"), "failed src/f: h:/f");
        assert_eq!(shown("h:x", Side::Source, "x/f"), "failed src/f: h:x/f");
        assert_eq!(shown("sftp://h/x", Side::Source, "/x/f"), "failed src/f: sftp://h/x/f");
        assert_eq!(shown("h:", Side::Source, "f"), "failed src/f: h:f", "in the home directory");
        assert_eq!(shown("/x", Side::Source, "/x/f"), "failed src/f: /x/f");
    }
}
