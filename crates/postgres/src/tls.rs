//! Whom a connection over TLS is believed to lead to.

use std::path::Path;
use std::sync::Arc;

use amends_store::{Error, Kind};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// How much of a server's certificate is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// Nothing: nobody can listen in, but whoever answers is believed.
    Anybody,
    /// Who signed it.
    Chain,
    /// Who signed it, and that it is for the host in the URL.
    ChainAndName,
}

/// How connections are made. `file`: the authorities that are trusted, in PEM; without one, those that the system trusts.
///
/// # Errors
/// [`Kind::Refused`]: there is nobody to trust, and why.
pub(crate) fn config(trust: Trust, file: Option<&Path>) -> Result<ClientConfig, Error> {
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anybody => Arc::new(Lenient { chain: None, provider: provider.clone() }),
        Trust::Chain => {
            let chain = Some(strict(&provider, file)?);
            Arc::new(Lenient { chain, provider: provider.clone() })
        }
        Trust::ChainAndName => strict(&provider, file)?,
    };
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("invariant: the provider knows the protocol's versions")
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth())
}

fn strict(provider: &Arc<CryptoProvider>, file: Option<&Path>) -> Result<Arc<WebPkiServerVerifier>, Error> {
    let roots = match file {
        Some(file) => read(file)?,
        None => system()?,
    };
    let built = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build();
    built.map_err(|e| refused(format!("the certificate authorities cannot be used ({e})")))
}

fn read(file: &Path) -> Result<RootCertStore, Error> {
    let name = file.display();
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(file)
        .map_err(|e| refused(format!("sslrootcert {name} cannot be read ({e})")))?;
    for certificate in certificates {
        let added = certificate
            .map_err(|e| e.to_string())
            .and_then(|certificate| roots.add(certificate).map_err(|e| e.to_string()));
        added.map_err(|e| {
            refused(format!("sslrootcert {name} has a certificate that cannot be used ({e})"))
        })?;
    }
    if roots.is_empty() {
        return Err(refused(format!("sslrootcert {name} has no certificate in PEM form")));
    }
    Ok(roots)
}

fn system() -> Result<RootCertStore, Error> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let why = found.errors.first().map(|e| format!(" ({e})")).unwrap_or_default();
        return Err(refused(format!("the system has no certificate authorities{why}")));
    }
    Ok(roots)
}

fn refused(why: String) -> Error {
    Error::new(
        Kind::Refused,
        format!("{why}; name a file of authorities in the store's URL: sslrootcert=/path/to/root.crt"),
    )
}

/// Looks at less than the whole certificate.
#[derive(Debug)]
struct Lenient {
    chain: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(certificate, intermediates, name, ocsp, now) {
            // The name is looked at last, after everything else was found right.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// What is wrong with a connection over TLS, and what to do about it. `None`: the error is another one.
pub(crate) fn fault(error: &tokio_postgres::Error) -> Option<String> {
    // The client has no word for it but this text.
    if !error.to_string().starts_with("error performing TLS handshake") {
        return None;
    }
    let source = std::error::Error::source(error);
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    let inner = io.and_then(std::io::Error::get_ref);
    let Some(tls) = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>()) else {
        let why = source.map_or_else(|| error.to_string(), ToString::to_string);
        return Some(format!(
            "{why}: let it offer TLS (ssl = on), or ask for less with sslmode in the store's URL"
        ));
    };
    let rustls::Error::InvalidCertificate(wrong) = tls else {
        return Some(format!("TLS with it fails ({tls}): see its log"));
    };
    let remedy = match wrong {
        // The latter: an authority of the same name, with another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "name the certificate of who signed it with sslrootcert in the store's URL"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "name the host in the store's URL as the certificate does, or give the server one for this name"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "give the server a new one",
        _ => "give the server another one",
    };
    Some(format!("its certificate is not accepted ({wrong}): {remedy}"))
}
