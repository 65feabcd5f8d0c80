//! Connections over TLS, to a server with a certificate of the test's own authority.

use std::time::{Duration, Instant};

use amends_postgres::PostgresStore;
use amends_store::conformance::samples::*;
use amends_store::{Error, Journal as _, Kind};
use amends_testbed::postgres::Postgres;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// An authority, its certificate in a file of its own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: String,
    _folder: TempDir,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "tests");
        let certificate = params.self_signed(&key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("root cert.crt");
        std::fs::write(&path, certificate.pem()).unwrap();
        // As a URL has it.
        let file = path.to_str().unwrap().replace(' ', "%20");
        Self { issuer: Issuer::new(params, key), file, _folder: folder }
    }

    /// A server with a certificate for these names.
    fn server(&self, names: &[&str]) -> Postgres {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Postgres::with_tls(&certificate.pem(), &key.serialize_pem()).unwrap()
    }
}

/// Opens it, and tells whether what came to the server was encrypted.
async fn encrypted(server: &Postgres, query: &str) -> bool {
    let url = format!("{}{query}", server.url());
    let store = PostgresStore::open(&url).await.unwrap_or_else(|error| panic!("{query}: {error}"));
    let ask = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'amends'";
    let told = server.ask(ask).unwrap();
    create(&store, submission(row(&format!("order:{query}")), &[])).await;
    // The next case counts its own sessions alone.
    drop(store);
    let until = Instant::now() + Duration::from_secs(60);
    while server.ask("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'amends'").unwrap()
        != "0"
    {
        assert!(Instant::now() < until);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    told == "t"
}

async fn refused(server: &Postgres, query: &str) -> Error {
    let opened = PostgresStore::open(&format!("{}{query}", server.url())).await;
    opened.map(drop).expect_err(query)
}

#[tokio::test]
async fn each_mode_does_what_it_says() {
    let authority = Authority::new();
    let server = authority.server(&["127.0.0.1", "localhost"]);
    let root = &authority.file;
    assert!(!encrypted(&server, "?sslmode=disable").await);
    for query in ["", "?sslmode=prefer", "?sslmode=require"] {
        assert!(encrypted(&server, query).await, "{query}");
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        assert!(encrypted(&server, &format!("?sslmode={mode}&sslrootcert={root}")).await, "{mode}");
    }
    let plain = Postgres::start().unwrap();
    assert!(!encrypted(&plain, "?sslmode=prefer").await);
    let error = refused(&plain, "?sslmode=require").await;
    assert!(error.kind == Kind::Unwritable && error.message.contains("ssl = on"), "{error}");
}

#[tokio::test]
async fn a_certificate_of_somebody_else_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let server = authority.server(&["127.0.0.1"]);
    for mode in ["require", "verify-ca", "verify-full"] {
        let error = refused(&server, &format!("?sslmode={mode}&sslrootcert={}", other.file)).await;
        assert!(
            error.kind == Kind::Unwritable
                && error.message.contains("its certificate is not accepted")
                && error.message.contains("sslrootcert"),
            "{mode}: {error}"
        );
    }
    // Whom the system trusts has not signed it either; where it trusts nobody, that is said.
    let error = refused(&server, "?sslmode=verify-full").await;
    assert!(error.message.contains("certificate"), "{error}");
    assert_eq!(server.ask("SELECT count(*) FROM pg_namespace WHERE nspname = 'amends'").unwrap(), "0");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused_where_names_count() {
    let authority = Authority::new();
    let server = authority.server(&["elsewhere.example"]);
    let root = &authority.file;
    assert!(encrypted(&server, &format!("?sslmode=verify-ca&sslrootcert={root}")).await);
    let error = refused(&server, &format!("?sslmode=verify-full&sslrootcert={root}")).await;
    assert!(error.kind == Kind::Unwritable && error.message.contains("name the host"), "{error}");
}

/// A server that comes back with another certificate is not worked on, and worked on again when it has the right one.
#[tokio::test]
async fn a_certificate_that_changes_stops_the_store_until_it_is_right_again() {
    let authority = Authority::new();
    let server = authority.server(&["127.0.0.1"]);
    let url = format!("{}?sslmode=verify-full&sslrootcert={}", server.url(), authority.file);
    let store = PostgresStore::open(&url).await.unwrap();
    create(&store, submission(row("order:1"), &[])).await;
    let good = server.ask("SELECT pg_read_file('server.crt') || '|' || pg_read_file('server.key')").unwrap();
    let (certificate, key) = good.split_once('|').unwrap();
    let other_key = KeyPair::generate().unwrap();
    let other =
        CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap().self_signed(&other_key).unwrap();
    let replace = |certificate: &str, key: &str| {
        server
            .ask(&format!(
                "COPY (SELECT unnest(string_to_array('{}', E'\n'))) TO PROGRAM 'cat > server.crt'",
                certificate.trim()
            ))
            .unwrap();
        server
            .ask(&format!(
                "COPY (SELECT unnest(string_to_array('{}', E'\n'))) TO PROGRAM 'cat > server.key'",
                key.trim()
            ))
            .unwrap();
        server.ask("SELECT pg_reload_conf()").unwrap();
        server
            .ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'amends'")
            .unwrap();
    };
    replace(&other.pem(), &other_key.serialize_pem());
    let id = row("order:1").id;
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        match store.load(&id).await {
            Err(error) if error.message.contains("its certificate is not accepted") => break,
            Ok(_) | Err(_) => assert!(Instant::now() < until),
        }
    }
    replace(certificate, key);
    while store.load(&id).await.is_err() {
        assert!(Instant::now() < until + Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
