//! A server on what counts as another machine: over TLS alone, and with the right certificate.

use crate::postgres::{Cluster, cluster};
use leasehold::audit::Source;
use leasehold::{JournalError, PostgresPlace};
use std::net::ToSocketAddrs as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// This machine's own name, where that leads to loopback: a name is not known to be here.
fn name() -> Option<String> {
    let output = Command::new("hostname").output().ok()?;
    let name = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    let mut found = (name.as_str(), 1).to_socket_addrs().ok()?;
    let here = name != "localhost" && found.all(|address| address.ip().is_loopback());
    here.then_some(name)
}

/// Makes an authority and a certificate of it for this name.
fn certificates(folder: &Path, name: &str) -> Option<String> {
    let made = |arguments: &str| {
        let mut openssl = Command::new("openssl");
        openssl.current_dir(folder).args(arguments.split(' ')).stderr(Stdio::null());
        openssl.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    std::fs::write(folder.join("names"), format!("subjectAltName=DNS:{name}")).expect("writable");
    let key = "-newkey rsa:2048 -nodes";
    let whole = made(&format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=ca -days 2"))
        && made(&format!("req {key} -keyout server.key -out server.csr -subj /CN=server"))
        && made(
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -out server.pem \
             -days 2 -extfile names",
        );
    let at = folder.display();
    whole.then(|| {
        format!("-c ssl=on -c ssl_cert_file={at}/server.pem -c ssl_key_file={at}/server.key")
    })
}

#[test]
fn another_machine_is_talked_to_over_tls_with_a_certificate_for_its_name_or_not_at_all() {
    let Some(plain) = cluster() else { return };
    let Some(name) = name() else {
        return eprintln!("skipped: this machine's own name does not lead to loopback");
    };
    let Some(secured) = Cluster::with(|folder| certificates(folder, &name)) else {
        return eprintln!("skipped: openssl is not installed");
    };
    let reading = |cluster: &Cluster, more: &str| {
        let url = cluster.url().replace("127.0.0.1", &name) + more;
        Source::on_server(&PostgresPlace::parse(&url).expect("a URL")).err()
    };
    let authority = format!("&sslrootcert={}/ca.pem", secured.folder().display());
    // It was let in, and there is no journal yet.
    assert_eq!(reading(&secured, &authority), Some(JournalError::Missing));
    assert_eq!(reading(&secured, ""), Some(JournalError::Unreachable), "an unknown authority");
    assert_eq!(reading(plain, &authority), Some(JournalError::Unreachable), "no TLS there");
    let nowhere = reading(&secured, "&sslrootcert=/nowhere");
    assert_eq!(nowhere, Some(JournalError::UrlInvalid));
}
