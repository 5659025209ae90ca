//! Recipients and identities of `age` (<https://age-encryption.org/v1>).

use std::fs::File;
use std::io::{BufRead, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use age::stream::{StreamReader, StreamWriter};
use age::{DecryptError, Decryptor, Encryptor, ssh, x25519};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use haul_core::{Error, ErrorKind, Result, Side};

/// The largest key file that is read.
const MAX_FILE: u64 = 1 << 20;

/// The most recipients of one stream: each takes space in the sidecar.
const MAX_RECIPIENTS: usize = 50;

/// The prefix of a secret key of age.
const SECRET: &str = "AGE-SECRET-KEY-";

/// Whether a text is a secret key, not a file name or a recipient.
#[must_use]
pub fn is_secret(text: &str) -> bool {
    text.trim_start().get(..SECRET.len()).is_some_and(|start| start.eq_ignore_ascii_case(SECRET))
}

/// The keys that a stream is encrypted to.
#[derive(Clone, Default)]
pub struct Recipients(Vec<Arc<dyn age::Recipient + Send + Sync>>);

impl Recipients {
    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a recipient: `age1…`, `ssh-ed25519 …` or `ssh-rsa …`.
    ///
    /// # Errors
    /// Why the text is not a recipient. The message does not contain the text, which may be a secret.
    pub fn add(&mut self, text: &str) -> std::result::Result<(), String> {
        let text = text.trim();
        if is_secret(text) {
            return Err("it is a secret key; `age-keygen -y` prints its recipient".to_owned());
        }
        if self.0.len() == MAX_RECIPIENTS {
            return Err(format!("there may be {MAX_RECIPIENTS} at most"));
        }
        if text.starts_with("ssh-") {
            let recipient = ssh::Recipient::from_str(text).map_err(|error| match error {
                ssh::ParseRecipientKeyError::RsaModulusTooLarge => "the RSA key is too long".to_owned(),
                ssh::ParseRecipientKeyError::RsaModulusTooSmall => {
                    "the RSA key is shorter than 2048 bits".to_owned()
                }
                ssh::ParseRecipientKeyError::Unsupported(kind) => format!("{kind} keys cannot decrypt"),
                _ => "it is no public key of ssh".to_owned(),
            })?;
            self.0.push(Arc::new(recipient));
        } else {
            let recipient = x25519::Recipient::from_str(text)
                .map_err(|_| "it is neither age1…, ssh-ed25519 … nor ssh-rsa …".to_owned())?;
            self.0.push(Arc::new(recipient));
        }
        Ok(())
    }

    /// Adds the recipients in a file, one per line; empty lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// `Usage` if a line is not a recipient, else the error of reading the file.
    pub fn add_file(&mut self, path: &Path) -> Result<()> {
        let bad = |cause: String| {
            let error = Error::new(ErrorKind::Usage, Side::Local, "read recipients", cause);
            error.on(path.as_os_str().as_bytes())
        };
        let text = read(path, "read recipients")?;
        let before = self.0.len();
        for (number, line) in text.lines().enumerate() {
            if !line.trim().is_empty() && !line.starts_with('#') {
                self.add(line).map_err(|cause| bad(format!("line {}: {cause}", number + 1)))?;
            }
        }
        if self.0.len() > before { Ok(()) } else { Err(bad("there is none in it".to_owned())) }
    }

    /// Encrypts the bytes that are written to the result.
    ///
    /// # Errors
    /// `Unsupported` if the recipients cannot be combined or the header not written.
    pub(crate) fn encrypt<W: Write>(&self, to: W) -> Result<StreamWriter<W>> {
        let failed =
            |cause: String| Error::new(ErrorKind::Unsupported, Side::Local, "encrypt the stream", cause);
        let recipients = self.0.iter().map(|recipient| &**recipient as &dyn age::Recipient);
        let encryptor = Encryptor::with_recipients(recipients).map_err(|error| failed(error.to_string()))?;
        encryptor.wrap_output(to).map_err(|error| failed(error.to_string()))
    }

    /// Encrypts a few bytes as text.
    ///
    /// # Errors
    /// Those of [`Recipients::encrypt`].
    pub(crate) fn seal(&self, bytes: &[u8]) -> Result<String> {
        Ok(STANDARD.encode(self.seal_bytes(bytes)?))
    }

    /// Encrypts a few bytes.
    ///
    /// # Errors
    /// Those of [`Recipients::encrypt`].
    pub(crate) fn seal_bytes(&self, bytes: &[u8]) -> Result<Vec<u8>> {
        let failed =
            |error: &std::io::Error| Error::io(Side::Local, "encrypt the record of the stream", error);
        let mut sealed = self.encrypt(Vec::new())?;
        sealed.write_all(bytes).map_err(|error| failed(&error))?;
        sealed.finish().map_err(|error| failed(&error))
    }
}

type Key = Box<dyn age::Identity + Send + Sync>;

/// Secret keys.
#[derive(Default)]
pub struct Identities {
    keys: Vec<Key>,
    /// The default key file, used where no identity was named.
    usual: Option<PathBuf>,
    read: OnceLock<Vec<Key>>,
}

impl Identities {
    /// The keys in a default file, which is read only when something turns out to be encrypted.
    #[must_use]
    pub fn usual(path: PathBuf) -> Self {
        Self { usual: Some(path), ..Self::default() }
    }

    /// Adds the keys in a file: the output of `age-keygen`, or a private ssh key without a passphrase.
    ///
    /// # Errors
    /// `Usage` if it holds something else, without quoting it; else the error of reading the file.
    pub fn add_file(&mut self, path: &Path) -> Result<()> {
        self.keys.append(&mut read_keys(path)?);
        Ok(())
    }

    /// All keys; reads the default file if need be.
    ///
    /// # Errors
    /// Those of [`Identities::add_file`].
    fn all(&self) -> Result<Vec<&dyn age::Identity>> {
        let usual: &[Key] = match (&self.usual, self.read.get()) {
            (None, _) => &[],
            (_, Some(read)) => read,
            (Some(path), None) => {
                let read = read_keys(path)?;
                self.read.get_or_init(|| read)
            }
        };
        Ok(self.keys.iter().chain(usual).map(|key| &**key as &dyn age::Identity).collect())
    }

    /// Decrypts the bytes of `from`. `failed` converts read errors.
    ///
    /// # Errors
    /// `Usage` without any key, `PermissionDenied` if no key matches, `Unsupported` for a passphrase, `Corrupt` if it
    /// is not encrypted.
    pub(crate) fn decrypt<R: BufRead>(
        &self,
        from: R,
        name: &str,
        failed: &dyn Fn(std::io::Error) -> Error,
    ) -> Result<StreamReader<R>> {
        let error = |kind, cause: &str| Error::new(kind, Side::Source, "decrypt", cause).on(name);
        let keys = self.all()?;
        if keys.is_empty() {
            return Err(error(ErrorKind::Usage, "it is encrypted, and no identity was named").with_hint(
                "--identity FILE or AGE_IDENTITY=FILE names the key; --raw gets the stored bytes",
            ));
        }
        let told = |fault: DecryptError| match fault {
            DecryptError::Io(fault) => failed(fault),
            DecryptError::NoMatchingKeys => {
                error(ErrorKind::PermissionDenied, "it is not encrypted to any of the keys that were named")
            }
            fault => error(ErrorKind::Corrupt, &fault.to_string()),
        };
        let decryptor = Decryptor::new_buffered(from).map_err(told)?;
        if decryptor.is_scrypt() {
            let error = error(ErrorKind::Unsupported, "it is encrypted by a passphrase");
            return Err(error.with_hint("`haul get --raw` and `age -d` read it"));
        }
        decryptor.decrypt(keys.into_iter()).map_err(told)
    }

    /// Decrypts the output of [`Recipients::seal`]; `None` if that fails.
    pub(crate) fn unseal(&self, text: &str) -> Option<Vec<u8>> {
        self.open_bytes(&STANDARD.decode(text).ok()?, MAX_FILE)
    }

    /// Decrypts up to so many bytes; `None` if that fails.
    pub(crate) fn open_bytes(&self, sealed: &[u8], most: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let decryptor = Decryptor::new_buffered(sealed).ok()?;
        decryptor.decrypt(self.all().ok()?.into_iter()).ok()?.take(most).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }
}

/// Reads the secret keys in a file.
///
/// # Errors
/// Those of [`Identities::add_file`].
fn read_keys(path: &Path) -> Result<Vec<Key>> {
    let bad = |cause: &str| {
        let error = Error::new(ErrorKind::Usage, Side::Local, "read the identity", cause);
        error.on(path.as_os_str().as_bytes())
    };
    let text = read(path, "read the identity")?;
    if text.trim_start().starts_with("-----BEGIN AGE ENCRYPTED") || text.starts_with("age-encryption.org/") {
        let error = bad("the file is encrypted itself");
        return Err(error.with_hint("hand it over decrypted: --identity <(age -d FILE)"));
    }
    if text.trim_start().starts_with("-----BEGIN") {
        return match ssh::Identity::from_buffer(text.as_bytes(), None) {
            Ok(key @ ssh::Identity::Unencrypted(_)) => Ok(vec![Box::new(key)]),
            Ok(ssh::Identity::Encrypted(_)) => {
                let error = bad("the key is protected by a passphrase");
                Err(error.with_hint("a copy without one is made by `ssh-keygen -p -N ''`"))
            }
            Ok(ssh::Identity::Unsupported(_)) => Err(bad("keys of this kind cannot decrypt")),
            Err(_) => Err(bad("it is no private key of ssh")),
        };
    }
    let mut keys: Vec<Key> = Vec::new();
    for (number, line) in text.lines().map(str::trim).enumerate() {
        if !line.is_empty() && !line.starts_with('#') {
            let key = x25519::Identity::from_str(line)
                .map_err(|_| bad(&format!("line {} is no secret key of age", number + 1)))?;
            keys.push(Box::new(key));
        }
    }
    if keys.is_empty() { Err(bad("there is no key in it")) } else { Ok(keys) }
}

/// Reads a key file, which may be a pipe.
fn read(path: &Path, operation: &str) -> Result<String> {
    let failed =
        |error: &std::io::Error| Error::io(Side::Local, operation, error).on(path.as_os_str().as_bytes());
    let mut text = String::new();
    let file = File::open(path).map_err(|error| failed(&error))?;
    file.take(MAX_FILE).read_to_string(&mut text).map_err(|error| failed(&error))?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use age::secrecy::ExposeSecret;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        file
    }

    #[test]
    fn only_the_recipient_can_decrypt_sealed_bytes() {
        let (mine, other) = (x25519::Identity::generate(), x25519::Identity::generate());
        let mut recipients = Recipients::default();
        recipients.add(&mine.to_public().to_string()).unwrap();
        let sealed = recipients.seal(b"a digest").unwrap();
        let keys = |key: &x25519::Identity| {
            let mut keys = Identities::default();
            let file = file(&format!("# mine\n{}\n", key.to_string().expose_secret()));
            keys.add_file(file.path()).unwrap();
            keys
        };
        assert_eq!(keys(&mine).unseal(&sealed).unwrap(), b"a digest");
        assert!(keys(&other).unseal(&sealed).is_none() && keys(&mine).unseal("x").is_none());
        let failed = |error: std::io::Error| Error::io(Side::Source, "read", &error);
        let stored = STANDARD.decode(&sealed).unwrap();
        let kind = |keys: &Identities, bytes: &[u8]| {
            keys.decrypt(bytes, "x", &failed).map(|_| ()).unwrap_err().kind()
        };
        assert_eq!(kind(&keys(&other), &stored), ErrorKind::PermissionDenied);
        assert_eq!(kind(&Identities::default(), &stored), ErrorKind::Usage);
        assert_eq!(kind(&keys(&mine), b"age-encryption.org/v1\nx\n\n\n"), ErrorKind::Corrupt);
    }

    #[test]
    fn a_secret_key_is_refused_as_recipient_and_never_printed() {
        let secret = x25519::Identity::generate().to_string();
        let secret = secret.expose_secret();
        let mut recipients = Recipients::default();
        let said = recipients.add(secret).unwrap_err();
        assert!(is_secret(secret) && !said.contains(&secret[20..]), "{said}");
        for text in ["age1", "ssh-ed25519 AAAA", "ssh-dss AAAA", "somebody", ""] {
            assert!(recipients.add(text).is_err(), "{text}");
        }
        let error = recipients.add_file(file(&format!("# x\n\n{secret}\n")).path()).unwrap_err().to_string();
        assert!(error.contains("line 3") && !error.contains(&secret[20..]), "{error}");
        assert!(recipients.add_file(file("# none\n").path()).is_err());
        let error = Identities::default().add_file(file(&secret[..30]).path()).unwrap_err().to_string();
        assert!(error.contains("line 1") && !error.contains(&secret[20..30]), "{error}");
        for text in ["", "-----BEGIN OPENSSH PRIVATE KEY-----\nx\n", "age-encryption.org/v1\n"] {
            assert!(Identities::default().add_file(file(text).path()).is_err(), "{text}");
        }
    }
}
