//! `haul verify`.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use haul_core::text::without_errno;
use haul_core::{
    DirLinks, Entry, EntryKind, Error, ErrorKind, Links, Location, Place, Report, Result, Side, SinkOptions,
    Source, Totals,
};
use haul_engine::{Algorithm, Cancel, VerifyDifference, VerifyOptions};

use haul_job::{
    Ends, Observer, OpenedSource, PartReporter, Paths, at_destination, each_source, missing_copy, not_found,
    open_sources, source_place,
};

use super::output::verify_settings;
use super::start::{ends_of_run, start_run};
use crate::args::VerifyArgs;
use crate::exit_code::Exit;
use crate::locations::parse_location;
use crate::manifest::{read_manifest, verify_signature};
use crate::render::{Console, Difference, Differences, Start, Summary, SummaryCommand, metadata_difference};
use crate::settings::{LinkSettings, VerifySettings, of_option, one_stdin, open_list, read_paths, usage};

/// Compares the destination with a source or a manifest.
///
/// # Errors
/// Errors before the run starts; later errors are in the summary.
pub(super) fn run(args: &VerifyArgs) -> Result<Exit> {
    let parse = |text| parse_location(text, &args.given);
    let (source, destination) = match (args.ends.as_slice(), &args.manifest) {
        ([source, destination], None) => (Some(parse(source)?), parse(destination)?),
        ([destination], Some(_)) => (None, parse(destination)?),
        (_, Some(_)) => return Err(usage("verify", "with --manifest it takes one location, DST")),
        (_, None) => {
            return Err(usage("verify", "it takes two locations, SRC and DST, or --manifest FILE and DST"));
        }
    };
    let list = args.list.files_from.as_deref();
    one_stdin(&args.filter, list)?;
    let settings = VerifySettings::resolve(args)?;
    let shown = source.as_ref().map(ToString::to_string);
    let listed = args.manifest.as_ref().map(|file| file.to_string_lossy().into_owned());
    let start = Start::new(
        SummaryCommand::Verify,
        shown.or(listed).unwrap_or_default(),
        Some(destination.to_string()),
    );
    let link = LinkSettings::resolve(&args.link, &args.given)?
        .explaining(args.verbose || args.output.json)
        .with_stores(&args.store, &args.given);
    link.check_endpoint(source.iter().chain([&destination]))?;
    let timeout_note = link.timeout_note(source.iter().chain([&destination]));
    let listed = list.map(|file| read_paths(file, args.filter.from0)).transpose()?;
    let (files_from, list) = listed.unzip();
    let (console, cancel) = start_run(verify_settings(args), &start)?;
    timeout_note.iter().for_each(|text| console.note(text));
    let mut ends = ends_of_run(link.config, &console, &cancel);
    ends.check_pages(args.pages.checks());
    let is_share = |end: &Location| matches!(end, Location::Smb { .. });
    if source.as_ref().is_some_and(is_share) && is_share(&destination) {
        ends.keep_reparse_points();
    }
    let signers = args.allowed_signers.as_deref();
    let keeps_dirlinks = args.dirlinks.keep_dirlinks;
    let differences = Differences::default();
    let equal = args.verbose;
    let mut verify = Verify { ends, destination, keeps_dirlinks, equal, console, cancel, differences };
    let report = match (&source, &args.manifest) {
        (Some(source), _) => verify.with_source(source, args.links.links(), &settings, files_from),
        (None, Some(manifest)) => verify.with_manifest(manifest, args.manifest_format.into(), signers),
        (None, None) => Ok(Report::default()),
    };
    let report = report.unwrap_or_else(|error| Report { fatal: Some(error), ..Report::default() });
    list.and_then(|list| list.warning(&report)).iter().for_each(|text| verify.console.note(text));
    let mut summary = Summary::new(SummaryCommand::Verify, report);
    summary.differences = verify.differences;
    summary.requests = verify.ends.requests();
    Ok(verify.console.finish(summary))
}

struct Verify {
    ends: Ends,
    destination: Location,
    /// Whether a symbolic link to a directory counts as the directory (`--keep-dirlinks`).
    keeps_dirlinks: bool,
    /// Whether equal entries are listed (`-v`).
    equal: bool,
    console: Arc<Console>,
    cancel: Cancel,
    differences: Differences,
}

impl Verify {
    fn with_source(
        &mut self,
        at: &Location,
        links: Links,
        settings: &VerifySettings,
        mut files_from: Option<Paths>,
    ) -> Result<Report> {
        let mut sources = open_sources(&mut self.ends, at, links)?;
        // Files that are equal at DST have the same pages.
        self.ends.check_pages(None);
        if files_from.is_some() {
            let is_one = sources.len() == 1 && sources.iter().all(|source| source.names.is_empty());
            if !is_one {
                return Err(usage("verify", "--files-from takes one source").on(at.to_string()));
            }
            sources = sources.into_iter().map(OpenedSource::listed).collect();
        }
        // A prefix of a store is there only if something is below it.
        let is_only = sources.len() == 1;
        each_source(&sources, Some(&self.destination), &*self.console, |source, reporter| {
            let place = source.place_at(&self.destination);
            let mut open = |dirlinks| open_compared(&mut self.ends, &self.destination, &place, dirlinks);
            let destination = open(dirlinks_of(self.keeps_dirlinks))?;
            let behind_links = self.keeps_dirlinks.then(|| open(DirLinks::Shown)).transpose()?;
            let may_be_missing = is_only && !matches!(self.destination, Location::Object(_));
            let is_missing = may_be_missing && root_at(&*destination, &self.destination)?.is_none();
            if is_missing && is_dir(&*source.source)? {
                return Err(missing_copy(&self.destination, &place));
            }
            let VerifySettings { scan, sink, trust, changes } = settings;
            let source_time_unit = source.source.caps().time_unit;
            let sink = sink.clone().map(|sink| SinkOptions { source_time_unit, ..sink });
            let compared = sink.map(|sink| self.ends.compared(&self.destination, &place, &sink));
            let options = VerifyOptions {
                scan: source.options(scan),
                files_from: files_from.take(),
                links,
                trust: trust.between(&source.at, &self.destination),
                changes: self.ends.resolve(changes, &source.at, &self.destination)?,
                metadata: compared.transpose()?,
                dirlinks: behind_links,
                equal: self.equal,
            };
            let (console, differences) = (&*self.console, &mut self.differences);
            let mut found = |checked| show(console, reporter, differences, checked);
            let (from, to) = (&*source.source, &*destination);
            let report = haul_engine::verify(from, to, options, &mut found, reporter, &self.cancel);
            let only_missing = Differences { missing: differences.missing, ..Differences::default() };
            if report.totals.same == 0 && differences.missing > 0 && *differences == only_missing {
                let hint = missing_copy(&self.destination, &place);
                hint.hint().iter().for_each(|hint| console.note(&format!("all of SRC is missing: {hint}")));
            }
            Ok(report)
        })
    }

    fn with_manifest(
        &mut self,
        file: &OsStr,
        algorithm: Algorithm,
        allowed_signers: Option<&Path>,
    ) -> Result<Report> {
        let list = match allowed_signers {
            Some(signers) => signed_list(file, signers, &self.console)?,
            None => open_list(file)?,
        };
        let place = source_place(&self.destination);
        let dirlinks = dirlinks_of(self.keeps_dirlinks);
        let destination = open_compared(&mut self.ends, &self.destination, &place, dirlinks)?;
        let Some(root) = root_at(&*destination, &self.destination)? else {
            return Err(not_found(&self.destination, Side::Destination));
        };
        let one_file = (root.kind != EntryKind::Dir).then(|| self.destination.name().to_vec());
        let mut lines = read_manifest(list, file.as_bytes(), one_file).peekable();
        // That of a command that failed, unless it is signed: nothing would be compared, and all be equal.
        if lines.peek().is_none() && allowed_signers.is_none() {
            let error = usage("read the manifest", "it is empty").on(file.as_bytes());
            return Err(error.with_hint("did the command that wrote it fail?"));
        }
        // It is another file.
        if let Some(Err(error)) = lines.peek() {
            let refused = usage(error.operation(), error.cause()).on(error.subject());
            return Err(error.hint().into_iter().fold(refused, Error::with_hint));
        }
        let console = &*self.console;
        let reporter = PartReporter {
            observer: console,
            root_name: b"",
            source: None,
            destination: Some(&self.destination),
            before: Totals::default(),
            last: true,
            listed: false,
            bill: None,
        };
        let differences = &mut self.differences;
        let mut found = |checked| show(console, &reporter, differences, checked);
        let (destination, cancel, how) = (&*destination, &self.cancel, (algorithm, self.equal));
        let report = haul_engine::check_manifest(&mut lines, destination, how, &mut found, &reporter, cancel);
        let none_is_equal = report.totals.found > 0 && self.differences.differs == report.totals.found;
        if none_is_equal && algorithm == Algorithm::Blake3 {
            self.console
                .note("every digest differs: for a manifest of SHA-256, give --manifest-format sha256");
        }
        Ok(report)
    }
}

/// Opens the destination as a source.
fn open_compared(
    ends: &mut Ends,
    at: &Location,
    place: &Place,
    dirlinks: DirLinks,
) -> Result<Arc<dyn Source>> {
    ends.compared_source(at, place, dirlinks).map_err(|error| error.with_side(Side::Destination))
}

/// The root of the destination.
fn root_at(destination: &dyn Source, at: &Location) -> Result<Option<Entry>> {
    destination.root().map_err(|error| at_destination(error, at))
}

fn dirlinks_of(keeps_dirlinks: bool) -> DirLinks {
    if keeps_dirlinks { DirLinks::Entered } else { DirLinks::Kept }
}

fn is_dir(source: &dyn Source) -> Result<bool> {
    Ok(source.root()?.is_some_and(|root| root.is_dir()))
}

/// Opens a manifest whose signature is good.
///
/// # Errors
/// [`ErrorKind::Usage`] if it cannot be opened, [`ErrorKind::Corrupt`] if it has no good signature.
fn signed_list(file: &OsStr, allowed_signers: &Path, console: &Console) -> Result<Box<dyn BufRead + Send>> {
    if file == "-" {
        return Err(usage(
            "use --allowed-signers",
            "the manifest is standard input, which has no signature file",
        ));
    }
    let mut open = File::open(file)
        .map_err(|error| of_option(Error::io(Side::Local, "open the list", &error).on(file.as_bytes())))?;
    let signer = verify_signature(&mut open, Path::new(file), allowed_signers).map_err(|error| {
        let cause = without_errno(&error.to_string());
        Error::new(ErrorKind::Corrupt, Side::Local, "verify the signature", cause).on(file.as_bytes())
    })?;
    console.note(&format!("{} is signed by {signer}", file.display()));
    Ok(Box::new(BufReader::new(open)))
}

/// Shows and counts a difference.
fn show(
    console: &Console,
    reporter: &PartReporter<'_>,
    differences: &mut Differences,
    checked: VerifyDifference,
) {
    let (difference, path, detail) = match checked {
        VerifyDifference::Missing(path) => (Difference::Missing, path, String::new()),
        VerifyDifference::Differs(path, how) => (Difference::Differs, path, how),
        VerifyDifference::Metadata { changes, source, destination } => {
            let how = metadata_difference(changes, &source, &destination);
            (Difference::Metadata, source.path.clone(), how)
        }
        VerifyDifference::Extra(path) => (Difference::Extra, path, String::new()),
    };
    differences.count(difference);
    console.difference(difference, &reporter.name(&path), &detail);
}
