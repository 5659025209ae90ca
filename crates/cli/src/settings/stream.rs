//! Options of streams that only concern stores, or only files and hosts.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use haul_core::{Compress, Location, Result};

use super::errors::usage;
use crate::args::{AddressArgs, GetArgs, GivenArgs, PutArgs};

/// Refuses `put FILE DST`, with which other tools upload FILE, and `put DST PROGRAM FILE` without `--`: here all of them
/// are destinations, and FILE would be replaced.
fn refuse_upload(args: &PutArgs, places: &[Location]) -> Result<()> {
    if places.len() < 2 || !args.command.is_empty() || args.fifo.fifo_dir.is_some() {
        return Ok(());
    }
    for (number, place) in places.iter().enumerate() {
        let Location::Local(path) = place else { continue };
        let path = Path::new(OsStr::from_bytes(path));
        // `./name` has two components.
        let is_bare = path.components().count() == 1;
        if number > 0 && is_bare && is_program(path) {
            let (before, after) = places.split_at(number);
            let words =
                |places: &[Location]| places.iter().map(|place| format!(" {place}")).collect::<String>();
            let hint = format!(
                "write `--` before a program: haul put{} --{}; for a file of this name write ./{place}",
                words(before),
                words(after)
            );
            return Err(usage("put", "it is the name of a program").on(place.to_string()).with_hint(hint));
        }
        if path.is_file() && (number == 0 || is_bare) {
            let other = &places[usize::from(number == 0)];
            let way = if is_bare { format!("name it last, as ./{place}") } else { "name it last".to_owned() };
            let hint = format!("to copy it: haul copy {place} {other}; to replace it, {way}");
            let cause = "it exists, and `haul put` would replace it by the standard input";
            return Err(usage("put", cause).on(place.to_string()).with_hint(hint));
        }
    }
    Ok(())
}

/// Whether the search path has a program of this name.
fn is_program(name: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let may_run =
        |path: &Path| path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0);
    let dirs = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&dirs).any(|dir| may_run(&dir.join(name)))
}

/// Refuses options of `put` that its destinations do not take.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] with the option.
pub(crate) fn check_put(args: &PutArgs, places: &[Location]) -> Result<()> {
    refuse_upload(args, places)?;
    let Some(file) = places.iter().find(|place| !is_object(place)) else { return Ok(()) };
    let refuse = |option: &str, cause: &str, hint: &str| {
        Err(usage(&format!("use {option}"), cause).on(file.to_string()).with_hint(hint))
    };
    if !args.encode.encrypt.is_empty() || !args.encode.encrypt_file.is_empty() {
        let option = if args.encode.encrypt.is_empty() { "--encrypt-file" } else { "--encrypt" };
        return refuse(
            option,
            "objects are stored encrypted; a file gets the stream as it is",
            "pipe the stream through age -r RECIPIENT",
        );
    }
    let is_packed = !matches!(args.encode.compress, None | Some(Compress::Never | Compress::Auto));
    let hosts_only = places.iter().all(|place| !is_object(place) && !matches!(place, Location::Local(_)));
    if is_packed && !hosts_only && !args.reach.given.has("compress") {
        return refuse(
            "--compress",
            "objects are stored compressed, and hosts get compressed data; this file gets the stream as it is",
            "pipe the stream through zstd",
        );
    }
    if args.dry_run {
        let cause = "-n counts the requests to stores, and a file takes none";
        return refuse("-n", cause, "omit it, or this destination");
    }
    if places.iter().any(is_object) {
        return Ok(());
    }
    let object = &args.object;
    let options = [
        ("header", !object.header.is_empty()),
        ("metadata", !object.metadata.is_empty()),
        ("tag", !object.tag.is_empty()),
        ("storage-class", object.stored.storage_class.is_some()),
        ("sse", object.stored.sse.is_some()),
        ("max-parts", args.max_parts.is_some()),
    ];
    refuse_of_stores(&options, &args.reach.store.address, &args.reach.given, file)
}

/// Refuses options of `get` that its source does not take.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] with the option.
pub(crate) fn check_get(args: &GetArgs, at: &Location) -> Result<()> {
    if let Some(file) = args.file()
        && !matches!(Location::parse(file.as_os_str().as_bytes()), Ok(Location::Local(_)))
    {
        let error = usage("write the file", "FILE is a path on this host");
        let hint = "use `haul copy SRC DST` for another place; write ./NAME if the name has a colon";
        return Err(error.on(file.as_os_str().as_bytes()).with_hint(hint));
    }
    if args.pages.checks().is_some() && args.unpack.is_none() {
        let error = usage("use --pages", "only the members of a stream are files of databases");
        return Err(error.with_hint("use it with --unpack DIR, or omit it"));
    }
    if args.output.json && args.file().is_none() && args.unpack.is_none() {
        return Err(usage("write JSON", "the content goes to standard output: give a FILE"));
    }
    if is_object(at) {
        let is_typed = args.compress.wish().is_some()
            && !args.reach.given.has("compress")
            && !args.reach.given.has("zstd");
        if is_typed {
            let error = usage("use --compress", "it is for hosts: an object is fetched as it is stored");
            return Err(error.on(at.to_string()).with_hint("omit the option"));
        }
        return Ok(());
    }
    let options = [
        ("raw", args.decode.raw),
        ("identity", !args.decode.identity.is_empty()),
        ("fifo-dir", args.fifo_dir.is_some()),
    ];
    refuse_of_stores(&options, &args.reach.store.address, &args.reach.given, at)
}

fn is_object(place: &Location) -> bool {
    matches!(place, Location::Object(_))
}

fn refuse_of_stores(
    options: &[(&str, bool)],
    address: &AddressArgs,
    given: &GivenArgs,
    at: &Location,
) -> Result<()> {
    let addresses = [
        ("endpoint", address.endpoint.is_some()),
        ("region", address.region.is_some()),
        ("profile", address.profile.is_some()),
        ("no-sign-request", address.no_sign_request),
        ("ca-cert", address.ca_cert.is_some()),
        ("insecure-http", address.insecure_http),
    ];
    // Settings are for all runs, so only typed options are refused.
    let typed = options.iter().chain(&addresses).find(|(name, is_given)| *is_given && !given.has(name));
    let Some((name, _)) = typed else { return Ok(()) };
    let error = usage(&format!("use --{name}"), "it is for object stores, and this is a file");
    Err(error.on(at.to_string()).with_hint("omit the option"))
}
