//! Where a shared journal lives, and how to get there.
//!
//! Owns what a URL may say and what it may not: no password, and no way in the clear but on this machine.

use crate::error::JournalError;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::config::{Host, SslMode};
use url::Url;

/// The PostgreSQL schema where the URL names none.
const SCHEMA: &str = "leasehold";
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);
/// How long a connection may be silent before it is asked whether it is still there.
const IDLE: Duration = Duration::from_secs(10);

/// A database, and the schema in it that holds one journal.
///
/// `Debug` shows neither host nor user.
#[derive(Clone)]
pub struct PostgresPlace {
    pub(super) config: tokio_postgres::Config,
    pub(super) schema: String,
    pub(super) root_certificates: Option<PathBuf>,
    pub(super) label: Option<String>,
}

impl PostgresPlace {
    /// Reads `postgres://[user@]host[:port]/database[?schema=NAME][&sslrootcert=FILE]`. A host that begins
    /// with `%2F` is the folder of a Unix socket; `schema` is 1 to 63 of `a-z`, `0-9` and `_`, not
    /// beginning with a digit, `leasehold` if not given. A server on another machine is talked to over TLS
    /// only, and its certificate has to be for that host; `sslrootcert` names the file of its own authority.
    ///
    /// # Errors
    /// [`JournalError::UrlInvalid`]; [`JournalError::UrlPassword`] for a URL with a password: command lines
    /// and logs are read by many. Use [`Self::with_password`].
    pub fn parse(text: &str) -> Result<Self, JournalError> {
        let mut url = Url::parse(text).map_err(|_| JournalError::UrlInvalid)?;
        if !matches!(url.scheme(), "postgres" | "postgresql") {
            return Err(JournalError::UrlInvalid);
        }
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        if url.password().is_some() || pairs.iter().any(|(name, _)| name == "password") {
            return Err(JournalError::UrlPassword);
        }
        let (mut schema, mut root_certificates) = (SCHEMA.to_owned(), None);
        url.set_query(None);
        for (name, value) in pairs {
            match name.as_str() {
                "schema" => schema = value,
                "sslrootcert" => root_certificates = Some(PathBuf::from(value)),
                // What would change how others are served, or switch TLS off, is not for a URL.
                _ => return Err(JournalError::UrlInvalid),
            }
        }
        if !is_name(&schema) {
            return Err(JournalError::UrlInvalid);
        }
        let mut config: tokio_postgres::Config =
            url.as_str().parse().map_err(|_| JournalError::UrlInvalid)?;
        if config.get_hosts().len() != 1 || config.get_dbname().is_none() {
            return Err(JournalError::UrlInvalid);
        }
        config.application_name("leasehold");
        config.connect_timeout(CONNECT).keepalives_idle(IDLE).tcp_user_timeout(IDLE);
        let mut place = Self { config, schema, root_certificates, label: None };
        let mode = if place.is_local() { SslMode::Disable } else { SslMode::Require };
        place.config.ssl_mode(mode);
        Ok(place)
    }

    /// The password, for a server that asks for one.
    #[must_use]
    pub fn with_password(mut self, password: &str) -> Self {
        self.config.password(password);
        self
    }

    /// A name under which the engine is listed beside its id, such as that of its host; at most 100
    /// characters of it are kept. Nothing depends on it.
    #[must_use]
    pub fn with_label(mut self, label: &str) -> Self {
        self.label = Some(label.chars().filter(|c| !c.is_control()).take(100).collect());
        self
    }

    /// Whether the server is on this machine.
    pub(super) fn is_local(&self) -> bool {
        self.config.get_hosts().iter().all(|host| match host {
            Host::Tcp(name) => {
                name == "localhost" || name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
            }
            #[cfg(unix)]
            Host::Unix(_) => true,
        })
    }
}

impl std::fmt::Debug for PostgresPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresPlace").finish_non_exhaustive()
    }
}

fn is_name(schema: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    (1..=63).contains(&schema.len())
        && schema.bytes().all(allowed)
        && !schema.starts_with(|c: char| c.is_ascii_digit())
        && !schema.starts_with("pg_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_database_and_perhaps_a_schema() {
        let place = PostgresPlace::parse("postgres://app@127.0.0.1:5433/site").expect("a place");
        assert_eq!((place.schema.as_str(), place.is_local()), ("leasehold", true));
        assert_eq!(place.config.get_ssl_mode(), SslMode::Disable);
        let place = PostgresPlace::parse("postgresql://app@db.example/site?schema=shop_2");
        let place = place.expect("a place");
        assert_eq!((place.schema.as_str(), place.is_local()), ("shop_2", false));
        assert_eq!(place.config.get_ssl_mode(), SslMode::Require);
        let socket = PostgresPlace::parse("postgres://app@%2Frun%2Fpostgresql/site");
        assert!(socket.expect("a place").is_local());
    }

    #[test]
    fn what_a_url_may_not_say_is_refused() {
        for (url, expected) in [
            ("postgres://app:secret@db.example/site", JournalError::UrlPassword),
            ("postgres://app@db.example/site?password=secret", JournalError::UrlPassword),
            ("postgres://app@db.example/site?sslmode=disable", JournalError::UrlInvalid),
            ("postgres://app@db.example/site?options=-c%20fsync%3Doff", JournalError::UrlInvalid),
            ("postgres://app@db.example/site?schema=a%22b", JournalError::UrlInvalid),
            ("postgres://app@db.example/site?schema=pg_catalog", JournalError::UrlInvalid),
            ("postgres://app@db.example/site?schema=", JournalError::UrlInvalid),
            ("postgres://app@db.example", JournalError::UrlInvalid),
            ("mysql://app@db.example/site", JournalError::UrlInvalid),
            ("/var/lib/leasehold", JournalError::UrlInvalid),
        ] {
            assert_eq!(PostgresPlace::parse(url).err(), Some(expected), "{url}");
        }
    }

    #[test]
    fn nothing_of_a_place_is_printed() {
        let place = PostgresPlace::parse("postgres://app@db.example/site").expect("a place");
        assert_eq!(format!("{:?}", place.with_password("secret")), "PostgresPlace { .. }");
    }
}
