//! Signatures of manifests, by ssh-keygen(1): a key of ssh signs, and a list of allowed signers verifies.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use haul_core::path::printable;

use super::temporary::temporary;

/// The namespace of the signatures, as ssh-keygen(1) advises for files.
const NAMESPACE: &str = "file";

/// More than any key of ssh has, in bytes.
const LONGEST_KEY: u64 = 64 << 10;

/// The signature file of a manifest: its name with `.sig`, as ssh-keygen(1) names it.
fn signature_of(manifest: &Path) -> PathBuf {
    let mut name = OsString::from(manifest);
    name.push(".sig");
    name.into()
}

/// Signs a manifest with the key in `key`: a private key, or a public key whose private key the agent has.
///
/// # Errors
/// If ssh-keygen cannot be run, or does not sign; the error has its message.
pub(super) fn sign(manifest: &Path, key: &Path) -> io::Result<PathBuf> {
    let sign = ["-Y", "sign", "-n", NAMESPACE, "-f"].map(OsStr::new);
    let signed = ssh_keygen(&[&sign[..], &[key.as_os_str()]].concat(), File::open(manifest)?)?;
    let file = signature_of(manifest);
    let mut new = temporary(&file)?;
    new.write_all(&signed.stdout)?;
    new.as_file().sync_all()?;
    new.persist(&file)?;
    Ok(file)
}

/// Checks that a file is a key of ssh, private or public.
///
/// # Errors
/// If it cannot be read, or is none.
pub(super) fn check_key(key: &Path) -> io::Result<()> {
    let mut start = Vec::new();
    File::open(key)?.take(LONGEST_KEY).read_to_end(&mut start)?;
    let text = String::from_utf8_lossy(&start);
    let is_private = |line: &str| line.starts_with("-----BEGIN ") && line.ends_with("PRIVATE KEY-----");
    // The name of the algorithm, then the key in base64.
    let is_public = |line: &str| line.split(' ').nth(1).is_some_and(|key| key.starts_with("AAAA"));
    let is_key = text.lines().map(str::trim).any(|line| is_private(line) || is_public(line));
    if is_key { Ok(()) } else { Err(io::Error::other("it is no key of ssh")) }
}

/// Verifies that a key in `allowed_signers` signed the manifest that is open as `manifest`. Returns the signer. Reads
/// `manifest` from its start, and leaves it there.
///
/// # Errors
/// If the signature is missing or invalid, or if its key is not in the list.
pub(crate) fn verify_signature(
    manifest: &mut File,
    name: &Path,
    allowed_signers: &Path,
) -> io::Result<String> {
    let signature = signature_of(name);
    for file in [&*signature, allowed_signers] {
        File::open(file)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", file.display())))?;
    }
    let files = ["-f".as_ref(), allowed_signers.as_os_str(), "-s".as_ref(), signature.as_os_str()];
    let find = ["-Y".as_ref(), OsStr::new("find-principals")];
    let found = ssh_keygen(&[&find[..], &files].concat(), Stdio::null())?;
    let signer = first_principal(&found.stdout);
    let check = ["-Y", "verify", "-n", NAMESPACE, "-I", &signer].map(OsStr::new);
    ssh_keygen(&[&check[..], &files].concat(), manifest.try_clone()?)?;
    manifest.rewind()?;
    Ok(signer)
}

/// Runs ssh-keygen.
///
/// # Errors
/// If it cannot be run, or fails; the error has the last line of its message.
fn ssh_keygen(arguments: &[&OsStr], input: impl Into<Stdio>) -> io::Result<Output> {
    let output = Command::new("ssh-keygen")
        .args(arguments)
        .stdin(input)
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("failed to run ssh-keygen: {error}")))?;
    if output.status.success() {
        return Ok(output);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let said =
        text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(|line| printable(line.as_bytes()));
    Err(io::Error::other(format!("ssh-keygen: {}", said.unwrap_or_else(|| output.status.to_string()))))
}

/// The first of the principals that ssh-keygen lists, one entry of the list of allowed signers in each line.
fn first_principal(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.lines().next().and_then(|line| line.split(',').next()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Makes a key and the line of a list that allows `signer` to sign with it.
    fn key(dir: &Path, name: &str, signer: &str) -> String {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(dir.join(name))
            .status();
        assert!(made.unwrap().success());
        format!("{signer} {}", fs::read_to_string(dir.join(name).with_extension("pub")).unwrap())
    }

    #[test]
    fn only_an_allowed_signature_of_this_content_is_good() {
        let dir = tempfile::tempdir().unwrap();
        let (manifest, allowed) = (dir.path().join("m"), dir.path().join("allowed"));
        let check = || {
            verify_signature(&mut File::open(&manifest).unwrap(), &manifest, &allowed)
                .map_err(|e| e.to_string())
        };
        let (good, other) = (key(dir.path(), "good", "ops@example"), key(dir.path(), "other", "eve"));
        fs::write(&manifest, "content\n").unwrap();
        fs::write(&allowed, &good).unwrap();
        assert!(check().unwrap_err().contains("m.sig: "));
        assert_eq!(sign(&manifest, &dir.path().join("good")).unwrap(), dir.path().join("m.sig"));
        assert_eq!(check().unwrap(), "ops@example");
        fs::write(&allowed, &other).unwrap();
        assert!(check().unwrap_err().contains("No principal matched"));
        fs::write(&allowed, [other, good].concat()).unwrap();
        fs::write(&manifest, "content!\n").unwrap();
        assert!(check().unwrap_err().contains("incorrect signature"));
        sign(&manifest, &dir.path().join("other")).unwrap();
        assert_eq!(check().unwrap(), "eve");
        assert!(sign(&manifest, &dir.path().join("none")).unwrap_err().to_string().contains("No such file"));
        assert_eq!(check().unwrap(), "eve");
    }

    #[test]
    fn a_file_that_is_no_key_is_told_from_keys() {
        let dir = tempfile::tempdir().unwrap();
        key(dir.path(), "k", "me");
        assert!(check_key(&dir.path().join("k")).is_ok() && check_key(&dir.path().join("k.pub")).is_ok());
        for other in ["", "text\n", "-----BEGIN CERTIFICATE-----\n"] {
            let file = dir.path().join("other");
            fs::write(&file, other).unwrap();
            assert_eq!(check_key(&file).unwrap_err().to_string(), "it is no key of ssh", "{other}");
        }
        assert_eq!(check_key(&dir.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_manifest_is_read_from_its_start_afterwards() {
        let dir = tempfile::tempdir().unwrap();
        let (manifest, allowed) = (dir.path().join("m"), dir.path().join("allowed"));
        fs::write(&manifest, "content").unwrap();
        fs::write(&allowed, key(dir.path(), "k", "me")).unwrap();
        sign(&manifest, &dir.path().join("k")).unwrap();
        let mut file = File::open(&manifest).unwrap();
        verify_signature(&mut file, &manifest, &allowed).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "content");
    }
}
