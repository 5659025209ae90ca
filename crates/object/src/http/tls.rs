//! TLS with the certificates of `--ca-cert`.
//!
//! `openssl req -x509` makes a certificate that is one of an authority and of a server at once. Chains of certificates
//! forbid that, so such a server is trusted if the file has this very certificate.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// The client side of TLS, which trusts the system's certificates and those in the file.
///
/// # Errors
/// A sentence if the file cannot be read.
pub(super) fn config(file: &str) -> Result<ClientConfig, String> {
    let read = std::fs::read(file).map_err(|error| error.to_string());
    read.and_then(|pem| trusting(&pem)).map_err(|error| format!("{file}: {error}"))
}

fn trusting(pem: &[u8]) -> Result<ClientConfig, String> {
    let certificates = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| error.to_string())?;
    if certificates.is_empty() {
        return Err("it has no certificate in the format PEM".to_owned());
    }
    with(certificates).map_err(|error| error.to_string())
}

fn with(certificates: Vec<CertificateDer<'static>>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(default_provider());
    let verifier = Arc::new(FileVerifier::new(certificates, Arc::clone(&provider))?);
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = config.with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

/// Verifies the certificates of servers.
#[derive(Debug)]
struct FileVerifier {
    /// Verifies chains up to an authority of the system or of the file.
    chains: Verifier,
    /// The certificates of the file.
    listed: Vec<CertificateDer<'static>>,
}

impl FileVerifier {
    fn new(listed: Vec<CertificateDer<'static>>, provider: Arc<CryptoProvider>) -> Result<Self, Error> {
        Ok(Self { chains: Verifier::new_with_extra_roots(listed.clone(), provider)?, listed })
    }
}

impl ServerCertVerifier for FileVerifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        above: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let is_listed = || self.listed.iter().any(|listed| **listed == **server);
        match self.chains.verify_server_cert(server, above, name, ocsp, now) {
            // The times of the certificate were checked before its kind; its name would be checked last.
            Err(error) if is_authority(&error) && is_listed() => {
                verify_server_name(&ParsedCertificate::try_from(server)?, name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls12_signature(message, server, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains.verify_tls13_signature(message, server, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Whether a certificate is refused only because it is that of an authority.
fn is_authority(error: &Error) -> bool {
    match error {
        Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) => {
            cause.to_string() == "CaUsedAsEndEntity"
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 3650 -subj /CN=store.test
    //   -addext subjectAltName=DNS:store.test,IP:127.0.0.1
    const OWN: &str = "\
-----BEGIN CERTIFICATE-----
MIIBnDCCAUKgAwIBAgIUD57euHnm5yW6lfF2fAllS2uAPRYwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKc3RvcmUudGVzdDAeFw0yNjExMjgwMjQyNThaFw0zNjExMjUw
MjQyNThaMBUxEzARBgNVBAMMCnN0b3JlLnRlc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATdZuJ/ukiZs8OyJtBp5t3OHC467+Tp8FvQLAk1wHl4oBFqHov+IvkF
0xMPsRab7HvG0lUaJinY/lFcr81oaHMyo3AwbjAdBgNVHQ4EFgQUCmkjPM/hFdIq
hNNKO/BtzTRIszEwHwYDVR0jBBgwFoAUCmkjPM/hFdIqhNNKO/BtzTRIszEwDwYD
VR0TAQH/BAUwAwEB/zAbBgNVHREEFDASggpzdG9yZS50ZXN0hwR/AAABMAoGCCqG
SM49BAMCA0gAMEUCICUULyLj9w/FEAFe4eswyhTOX2maKv1EG6iZiYzPvod1AiEA
hUr7FdnLwUCcPiEWmo7MkICB03wvmXbN5QYPPkj/HlI=
-----END CERTIFICATE-----
";
    const OTHER: &str = "\
-----BEGIN CERTIFICATE-----
MIIBnDCCAUKgAwIBAgIUb+mzpuSQy64WE+puToEnrKq26QkwCgYIKoZIzj0EAwIw
FTETMBEGA1UEAwwKc3RvcmUudGVzdDAeFw0yNjExMjgwMjQyNThaFw0zNjExMjUw
MjQyNThaMBUxEzARBgNVBAMMCnN0b3JlLnRlc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQMb/l829b0I/q9AqqVroL60zKWWUa/W3e1sB8xyYTCf+V+YM6pjFhQ
RprXJFNa2H0L+USvsQpp6GpHR+1SksDDo3AwbjAdBgNVHQ4EFgQUr5aXO7Li3MUf
WwxUzygZP1TpJIIwHwYDVR0jBBgwFoAUr5aXO7Li3MUfWwxUzygZP1TpJIIwDwYD
VR0TAQH/BAUwAwEB/zAbBgNVHREEFDASggpzdG9yZS50ZXN0hwR/AAABMAoGCCqG
SM49BAMCA0gAMEUCIQDRwgVM/YTKBxQT22NRklYB6ER2Ag+1n6+HsLOYP1YdPAIg
ZX1UFIb2XaKS6prx0z1plCnwPq6ecGF30+xWNDHXFL4=
-----END CERTIFICATE-----
";

    /// When it was made.
    const NOT_BEFORE: u64 = 1_795_833_778;

    fn certificate(pem: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
    }

    /// Verifies the certificate that a server shows, if the file has another one or the same.
    fn verify(file: &str, server: &str, name: &str, at: u64) -> Result<ServerCertVerified, Error> {
        let verifier = FileVerifier::new(vec![certificate(file)], Arc::new(default_provider())).unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
        verifier.verify_server_cert(&certificate(server), &[], &name, &[], at)
    }

    #[test]
    fn a_server_is_known_by_its_own_certificate() {
        // A day after it was made.
        let day = NOT_BEFORE + 86_400;
        for name in ["store.test", "127.0.0.1"] {
            assert!(verify(OWN, OWN, name, day).is_ok(), "{name}");
        }
        let refused = |error: Error| match error {
            Error::InvalidCertificate(cause) => cause,
            other => panic!("{other}"),
        };
        let cause = refused(verify(OTHER, OWN, "store.test", day).unwrap_err());
        assert!(matches!(cause, CertificateError::Other(_)), "{cause:?}");
        for name in ["other.test", "127.0.0.2"] {
            let cause = refused(verify(OWN, OWN, name, day).unwrap_err());
            assert!(matches!(cause, CertificateError::NotValidForNameContext { .. }), "{cause:?}");
        }
        let cause = refused(verify(OWN, OWN, "store.test", NOT_BEFORE + 3651 * 86_400).unwrap_err());
        assert!(matches!(cause, CertificateError::ExpiredContext { .. }), "{cause:?}");
        let cause = refused(verify(OWN, OWN, "store.test", NOT_BEFORE - 86_400).unwrap_err());
        assert!(matches!(cause, CertificateError::NotValidYetContext { .. }), "{cause:?}");
    }

    #[test]
    fn a_file_without_a_certificate_is_refused() {
        assert!(trusting(OWN.as_bytes()).is_ok());
        assert!(trusting(format!("# two\n{OWN}\n{OTHER}").as_bytes()).is_ok());
        assert_eq!(trusting(b"text").unwrap_err(), "it has no certificate in the format PEM");
        assert!(trusting(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").is_err());
    }
}
