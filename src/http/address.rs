//! Origins a client may call (contract 3.1).

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
        let clean = text.is_ascii() && text.bytes().all(|byte| byte > 0x20 && byte != 0x7f);
        if !clean || text.len() > URL_CHARACTERS_MAX || text.contains(['@', '?', '#', '\\']) {
            return Err(AddressInvalid);
        }
        let origin = text.strip_suffix('/').unwrap_or(text);
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

    /// The origin followed by a path of ours.
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
}
