//! Who may connect: each end has a key for this run and knows the key of the other end.
//!
//! Each process makes a key pair when it needs one and never stores it. The public keys are exchanged over the ssh
//! session, which both ends have proved themselves to; over TLS each end then proves that it holds its key (raw public
//! keys, RFC 7250) and accepts no other. So there are no certificates, no names and no times to check, and nothing
//! secret is on a command line.

use std::sync::Arc;

use aws_lc_rs::signature::Ed25519KeyPair;
use haul_core::{Error, ErrorKind, Result, Side};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, ClientConfig, UnbufferedClientConnection};
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, sign::any_eddsa_type};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, ServerConfig, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{DigitallySignedStruct, DistinguishedName, SignatureScheme};

/// A public key, as a DER-encoded SubjectPublicKeyInfo (44 bytes for Ed25519, RFC 8410).
pub type PublicKey = Vec<u8>;

/// A key pair of this process.
#[derive(Clone)]
pub struct KeyPair {
    key: Arc<CertifiedKey>,
    public: PublicKey,
    provider: Arc<CryptoProvider>,
}

impl KeyPair {
    /// Makes a key pair.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn generate() -> Result<Self> {
        let failed = |cause: &str| Error::new(ErrorKind::Io, Side::Local, "make a key", cause);
        let pair = Ed25519KeyPair::generate().map_err(|_| failed("no random numbers"))?;
        let pkcs8 = pair.to_pkcs8().map_err(|_| failed("it cannot be encoded"))?;
        let signing = any_eddsa_type(&PrivatePkcs8KeyDer::from(pkcs8.as_ref()))
            .map_err(|error| failed(&error.to_string()))?;
        let public =
            signing.public_key().map(|key| key.to_vec()).ok_or_else(|| failed("it has no public part"))?;
        let key = Arc::new(CertifiedKey::new(vec![CertificateDer::from(public.clone())], signing));
        Ok(Self { key, public, provider: Arc::new(provider()) })
    }

    /// The public key, which the other end has to know.
    #[must_use]
    pub fn public_key(&self) -> &PublicKey {
        &self.public
    }

    /// The connecting side of a connection to the holder of the key `peer`.
    pub(crate) fn client(
        &self,
        peer: &PublicKey,
    ) -> std::result::Result<UnbufferedClientConnection, rustls::Error> {
        // Not looked at by the other end, which is known by its key.
        let name = ServerName::try_from("haul").map_err(|_| rustls::Error::General("a bad name".into()))?;
        UnbufferedClientConnection::new(Arc::new(self.client_config(peer)?), name)
    }

    pub(crate) fn client_config(&self, peer: &PublicKey) -> std::result::Result<ClientConfig, rustls::Error> {
        let mut config = ClientConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(self.pin(peer)))
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(self.key.clone())));
        config.enable_secret_extraction = true;
        Ok(config)
    }

    /// The accepting side of a connection from the holder of the key `peer`.
    pub(crate) fn server(
        &self,
        peer: &PublicKey,
    ) -> std::result::Result<UnbufferedServerConnection, rustls::Error> {
        UnbufferedServerConnection::new(Arc::new(self.server_config(peer)?))
    }

    pub(crate) fn server_config(&self, peer: &PublicKey) -> std::result::Result<ServerConfig, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(Arc::new(self.pin(peer)))
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(self.key.clone())));
        // No session resumption: each connection proves its keys.
        config.send_tls13_tickets = 0;
        config.enable_secret_extraction = true;
        Ok(config)
    }

    fn pin(&self, peer: &PublicKey) -> Pin {
        Pin { key: peer.clone(), provider: self.provider.clone() }
    }
}

/// AES if the CPU has instructions for it, else ChaCha20.
fn provider() -> CryptoProvider {
    let aes = vec![cipher_suite::TLS13_AES_128_GCM_SHA256, cipher_suite::TLS13_AES_256_GCM_SHA384];
    let chacha = vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    let cipher_suites = if has_aes() { [aes, chacha].concat() } else { [chacha, aes].concat() };
    CryptoProvider { cipher_suites, ..default_provider() }
}

/// Whether the processor has AES instructions.
#[must_use]
pub fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Accepts one key and nothing else.
#[derive(Debug)]
struct Pin {
    key: PublicKey,
    provider: Arc<CryptoProvider>,
}

impl Pin {
    fn is_it(&self, key: &CertificateDer<'_>) -> std::result::Result<(), rustls::Error> {
        if key.as_ref() == self.key {
            Ok(())
        } else {
            Err(rustls::CertificateError::ApplicationVerificationFailure.into())
        }
    }

    /// To know the public key is not enough: the client has to sign with the private one.
    fn signed(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn refuse_old() -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken".into()))
    }
}

/// The methods that both traits of verifiers have.
macro_rules! signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            _message: &[u8],
            _cert: &CertificateDer<'_>,
            _dss: &DigitallySignedStruct,
        ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
            Self::refuse_old()
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
            self.signed(message, cert, dss)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            vec![SignatureScheme::ED25519]
        }

        fn requires_raw_public_keys(&self) -> bool {
            true
        }
    };
}

impl ServerCertVerifier for Pin {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        self.is_it(end_entity).map(|()| ServerCertVerified::assertion())
    }

    signatures!();
}

impl ClientCertVerifier for Pin {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        self.is_it(end_entity).map(|()| ClientCertVerified::assertion())
    }

    signatures!();
}
