//! How connections are made: TCP without delay, TLS with one provider (ring) and no global state.

use std::path::Path;
use std::sync::Arc;

use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::link::Connector;

/// A connector for one participant: it trusts the authorities in `ca_file`, or else the system's. No proxy is ever used.
///
/// # Errors
/// Why there is nobody to trust, in plain words.
pub(crate) fn connector(is_https: bool, ca_file: Option<&Path>) -> Result<Connector, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = match ca_file {
        Some(path) => read(path)?,
        // Reading the system's takes a while, and nobody would ask them.
        None if !is_https => RootCertStore::empty(),
        None => return system(),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp()))
}

fn system() -> Result<Connector, String> {
    let builder = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
        .map_err(|error| {
            format!("the system has no certificate authorities ({error}): install them, or set ca_file")
        })?;
    Ok(builder.https_or_http().enable_http1().wrap_connector(tcp()))
}

fn tcp() -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp
}

fn read(path: &Path) -> Result<RootCertStore, String> {
    let file = path.display();
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(|error| format!("ca_file {file} cannot be read: {error}"))?;
    for certificate in certificates {
        let certificate =
            certificate.map_err(|error| format!("ca_file {file} is not PEM throughout: {error}"))?;
        roots
            .add(certificate)
            .map_err(|error| format!("ca_file {file} has an unusable certificate: {error}"))?;
    }
    if roots.is_empty() {
        return Err(format!("ca_file {file} has no certificate; it must have at least one in PEM form"));
    }
    Ok(roots)
}
