//! Encoding of stored streams, from the options.

use haul_core::{Compress, Result};
use haul_streams::keys::{Identities, Recipients, is_secret};
use haul_streams::put::Encode;

use super::errors::{of_option, usage};
use crate::args::{DecodeArgs, EncodeArgs};

/// How a stream is encoded before it is stored.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if a recipient is invalid or a file cannot be read.
pub(crate) fn encode(args: &EncodeArgs) -> Result<Encode> {
    let mut recipients = Recipients::default();
    for text in &args.encrypt {
        recipients.add(text).map_err(|cause| {
            let error = usage("encrypt to a recipient", cause);
            if is_secret(text) { error } else { error.on(text) }
        })?;
    }
    args.encrypt_file.iter().try_for_each(|path| recipients.add_file(path)).map_err(of_option)?;
    let method = match args.compress {
        None | Some(Compress::Never) => None,
        Some(Compress::Always(method)) => Some(method),
        Some(Compress::Auto) => {
            let error = usage("use --compress auto", "it is for hosts: an object is stored in one way");
            return Err(error.with_hint("use none, lz4, zstd or zstd:LEVEL"));
        }
    };
    Ok(Encode { method, recipients })
}

/// The keys that decrypt a stream: the given files, or that of `AGE_IDENTITY`, which is read only for an encrypted
/// object.
///
/// # Errors
/// [`haul_core::ErrorKind::Usage`] if a file has no key, or a key was given instead of a file.
pub(crate) fn identities(args: &DecodeArgs) -> Result<Identities> {
    if args.identity.is_empty() {
        let usual = std::env::var_os("AGE_IDENTITY").filter(|path| !path.is_empty());
        return Ok(usual.map(|path| Identities::usual(path.into())).unwrap_or_default());
    }
    let mut keys = Identities::default();
    for path in &args.identity {
        if path.to_str().is_some_and(is_secret) {
            let error = usage("read the identity", "it is a key, not the name of a key file");
            return Err(error.with_hint("other users can see command lines: this key is no longer secret"));
        }
        keys.add_file(path).map_err(of_option)?;
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_key_on_the_command_line_is_refused_and_not_printed() {
        let secret = "AGE-SECRET-KEY-1QQQQQQQQQQQQQQQQQQQQQQQQQQQQQQ";
        let none = EncodeArgs { compress: None, encrypt: Vec::new(), encrypt_file: Vec::new() };
        let error = encode(&EncodeArgs { encrypt: vec![secret.to_owned()], ..none }).err().unwrap();
        assert!(!error.to_string().contains(secret));
        let error = identities(&DecodeArgs { raw: false, identity: vec![secret.into()], allow_plain: false });
        assert!(!error.err().unwrap().to_string().contains(secret));
    }
}
