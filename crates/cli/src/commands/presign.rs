//! `haul presign`.

use std::time::Duration;

use haul_core::{ErrorKind, Result, Side};
use haul_object::UrlMethod;

use super::print::print;
use super::stream::open_alone;
use crate::args::{MethodArg, PresignArgs};
use crate::exit_code::Exit;
use crate::render::print_line;
use crate::settings::parse_object;

/// Prints a signed URL on standard output, and nowhere else.
///
/// # Errors
/// [`ErrorKind::Usage`] if the credentials cannot sign one, else that of reaching the store.
pub(super) fn run(args: &PresignArgs) -> Result<Exit> {
    let place = parse_object(&args.place, &args.given)?;
    let client = open_alone(&place, Side::Source, &args.store, args.family.chosen(), &args.given)?;
    let method = match args.method {
        MethodArg::Get => UrlMethod::Get,
        MethodArg::Put => UrlMethod::Put,
    };
    // Before a request, so that credentials that cannot sign are refused at once.
    let lasts = Duration::from_secs(args.expires.into());
    let _ = client.presign(&place.key, method, lasts)?;
    // The answer tells the region of the bucket, which is part of the signature.
    match client.head(&place.key) {
        Ok(None) if method == UrlMethod::Get => {
            print_line("there is no such object yet: the URL works when there is");
        }
        // A user who may only write can sign a URL for that.
        Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
        _ => {}
    }
    let url = client.presign(&place.key, method, lasts)?;
    print(format!("{url}\n").as_bytes())
}
