//! Addresses a client may call (contract 3.1).

use url::{Host, Url};

/// Longest origin, in characters.
pub const URL_CHARACTERS_MAX: usize = 2048;

/// An address that is refused when a client is made, never when it calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("address_invalid")]
pub struct AddressInvalid;

/// Scheme, host and port: `https`, or `http` to this machine with an explicit opt-in.
#[derive(Clone, PartialEq, Eq)]
pub struct Origin(Box<str>);

impl Origin {
    /// Checks an origin; one trailing `/` is allowed and stripped.
    ///
    /// # Errors
    /// [`AddressInvalid`] for white space, control characters, more than 2,048 characters, other
    /// schemes, user information, a path, a query, a fragment, port 0, or text that is not ASCII.
    pub fn new(text: &str, allow_http_loopback: bool) -> Result<Self, AddressInvalid> {
        if text.len() > URL_CHARACTERS_MAX {
            return Err(AddressInvalid);
        }
        Self::strict(text.strip_suffix('/').unwrap_or(text), allow_http_loopback)
    }

    /// Checks an origin that must not end in `/`.
    ///
    /// # Errors
    /// [`AddressInvalid`] as for [`Self::new`], and for a trailing `/`.
    pub fn strict(origin: &str, allow_http_loopback: bool) -> Result<Self, AddressInvalid> {
        let clean = origin.is_ascii() && origin.bytes().all(|byte| byte > 0x20 && byte != 0x7f);
        if !clean || origin.len() > URL_CHARACTERS_MAX || origin.contains(['@', '?', '#', '\\']) {
            return Err(AddressInvalid);
        }
        let (scheme, authority) = origin.split_once("://").ok_or(AddressInvalid)?;
        let url = Url::parse(origin).map_err(|_| AddressInvalid)?;
        let loopback = match url.host() {
            Some(Host::Domain(domain)) => domain == "localhost",
            Some(Host::Ipv4(address)) => address.octets() == [127, 0, 0, 1],
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => return Err(AddressInvalid),
        };
        let plain = scheme.eq_ignore_ascii_case("http") && allow_http_loopback && loopback;
        let secure = scheme.eq_ignore_ascii_case("https");
        // A host such as `2130706433` is read as an address by the URL standard; what is called must
        // be what is written.
        let bracketed = secure && authority.starts_with('[');
        let written = bracketed
            || url.host_str().is_some_and(|host| {
                authority.get(..host.len()).is_some_and(|start| start.eq_ignore_ascii_case(host))
            });
        let port = url.port_or_known_default().is_some_and(|port| port > 0);
        if !(plain || secure)
            || authority.contains('/')
            || authority.ends_with(':')
            || !written
            || !port
        {
            return Err(AddressInvalid);
        }
        Ok(Self(origin.into()))
    }

    /// Its text, as it was given.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a path is called here exactly as it is written: it starts with one `/`, has no query
    /// and no fragment, and the URL standard rewrites nothing in it.
    #[must_use]
    pub fn takes(&self, path: &str) -> bool {
        path.starts_with('/')
            && !path.starts_with("//")
            && self.0.len() + path.len() <= URL_CHARACTERS_MAX
            && Url::parse(&self.with_path(path)).is_ok_and(|url| {
                url.path() == path && url.query().is_none() && url.fragment().is_none()
            })
    }

    /// The origin followed by a path.
    #[must_use]
    pub fn with_path(&self, path: &str) -> String {
        format!("{}{path}", self.0)
    }

    /// Whether it is plain `http`, which only loopback may be.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.0.len() >= 5 && self.0[..5].eq_ignore_ascii_case("http:")
    }
}

impl std::fmt::Debug for Origin {
    /// An address can carry what should not be in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Origin(..)")
    }
}

/// A whole URL to call: an origin and a path.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    origin: Origin,
    path: Box<str>,
}

impl Endpoint {
    /// Checks a URL.
    ///
    /// # Errors
    /// [`AddressInvalid`] for an origin that [`Origin::strict`] refuses, a path that is not there or
    /// that [`Origin::takes`] refuses, and more than 2,048 characters.
    pub fn new(text: &str, allow_http_loopback: bool) -> Result<Self, AddressInvalid> {
        let authority = text.find("://").ok_or(AddressInvalid)? + "://".len();
        let path = text[authority..].find('/').ok_or(AddressInvalid)? + authority;
        let (origin, path) = text.split_at(path);
        let origin = Origin::strict(origin, allow_http_loopback)?;
        if !origin.takes(path) {
            return Err(AddressInvalid);
        }
        Ok(Self { origin, path: path.into() })
    }

    /// Scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl std::fmt::Debug for Endpoint {
    /// An address can carry what should not be in a log.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Endpoint(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e10_origins_that_are_no_origins_are_refused() {
        let long = format!("https://{}.example", "a".repeat(URL_CHARACTERS_MAX));
        for bad in [
            "",
            "cms.example",
            "ftp://cms.example",
            "http://cms.example",
            "http://127.0.0.2",
            "http://localhost.example",
            "https://user@cms.example",
            "https://user:secret@cms.example",
            "https://cms.example/path",
            "https://cms.example//",
            "https://cms.example?query",
            "https://cms.example#fragment",
            "https://cms.example:0",
            "https://cms.example:65536",
            "https://cms.example:",
            "https://cms example",
            " https://cms.example",
            "https://cms.example\n",
            "https://cms.example\\path",
            "https://cäms.example",
            "https://",
            "https:///path",
            "http://2130706433",
            "http://0x7f.1",
            "http://127.1",
            long.as_str(),
        ] {
            assert_eq!(Origin::new(bad, true), Err(AddressInvalid), "{bad}");
        }
    }

    #[test]
    fn https_is_accepted_and_http_only_to_this_machine_with_the_opt_in() {
        for good in [
            "https://cms.example",
            "https://cms.example/",
            "https://CMS.example:8443",
            "https://[2001:db8:0:0::1]:8443",
        ] {
            assert!(Origin::new(good, false).is_ok(), "{good}");
        }
        for loopback in ["http://localhost:80", "http://127.0.0.1:8700/", "http://[::1]:1"] {
            assert!(Origin::new(loopback, true).is_ok(), "{loopback}");
            assert_eq!(Origin::new(loopback, false), Err(AddressInvalid), "{loopback}");
        }
        let origin = Origin::new("https://cms.example/", false).expect("an origin");
        assert_eq!(origin.with_path("/v2/x"), "https://cms.example/v2/x");
        assert!(!origin.is_plain());
    }

    #[test]
    fn a_strict_origin_has_no_trailing_slash() {
        assert!(Origin::strict("https://cms.example", false).is_ok());
        for bad in ["https://cms.example/", "https://cms.example/path", "http://cms.example", ""] {
            assert_eq!(Origin::strict(bad, true), Err(AddressInvalid), "{bad}");
        }
    }

    #[test]
    fn h4_urls_that_are_no_endpoint_are_refused() {
        let long = format!("https://cms.example/{}", "a".repeat(URL_CHARACTERS_MAX));
        for bad in [
            "",
            "/path",
            "https://cms.example",
            "https://cms.example//path",
            "https://cms.example/path?query",
            "https://cms.example/path?",
            "https://cms.example/path#fragment",
            "https://cms.example/path#",
            "https://cms.example?query/path",
            "https://user:secret@cms.example/path",
            "https://cms.example/a path",
            "https://cms.example/path\n",
            "https://cms.example/a/../path",
            "https://cms.example/%2e%2e/path",
            "https://cms.example/a\\path",
            "https://cms.example/päth",
            "https:///path",
            "http://cms.example/path",
            "ftp://cms.example/path",
            long.as_str(),
        ] {
            assert_eq!(Endpoint::new(bad, true), Err(AddressInvalid), "{bad}");
        }
    }

    #[test]
    fn h8_an_endpoint_is_an_origin_and_a_path_as_they_are_written() {
        let url = "https://Receiver.example:8443/v1/localization/terminal-notifications";
        let endpoint = Endpoint::new(url, false).expect("an endpoint");
        assert_eq!(endpoint.origin().as_str(), "https://Receiver.example:8443");
        assert_eq!(endpoint.path(), "/v1/localization/terminal-notifications");
        assert_eq!(endpoint.origin().with_path(endpoint.path()), url);
        assert_eq!(format!("{endpoint:?}"), "Endpoint(..)");
        assert!(Endpoint::new("http://[::1]:8700/path", true).is_ok());
        assert_eq!(Endpoint::new("http://127.0.0.1/path", false), Err(AddressInvalid));
        assert!(Endpoint::new("https://cms.example/", false).is_ok());
    }
}
