//! The command line's configuration file: TOML, unknown keys refused.
//!
//! Owns its shape, its defaults and its checks; `examples/leasehold.toml` documents every key.
//! Secrets are named here by variable or file and never written here.

use crate::http::credentials::are_allowed;
use crate::http::{CmsClient, CmsOptions, HmacSha256Signer, NoAuthHeaders, StaticAuthHeader};
use leasehold_actors::contract::text::Token;
use leasehold_actors::record::policy::{Delays, Policy};
use secrecy::{SecretSlice, SecretString};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// A configuration that cannot be used. The message names the key and the rule, never a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigInvalid {
    /// The file cannot be read.
    #[error("config_unreadable: the file cannot be read")]
    Unreadable,
    /// Not TOML, a key that is not known or is missing, or a value of another kind.
    #[error(
        "config_syntax: line {line}: not TOML, an unknown or a missing key, or a value of the wrong kind"
    )]
    Syntax {
        /// Where.
        line: usize,
    },
    /// A value outside of its rule.
    #[error("config_value: {key}: {rule}")]
    Value {
        /// Which key.
        key: &'static str,
        /// The rule.
        rule: &'static str,
    },
}

const fn value(key: &'static str, rule: &'static str) -> ConfigInvalid {
    ConfigInvalid::Value { key, rule }
}

/// The whole file.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The CMS.
    pub cms: CmsConfig,
    /// Flow `dispatch`.
    #[serde(default)]
    pub dispatch: DispatchConfig,
    /// Where the file lies; files it names are relative to this.
    #[serde(skip)]
    folder: PathBuf,
}

/// Section `[cms]`.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CmsConfig {
    /// `https://host[:port]`.
    pub origin: String,
    /// Whether `http` to this machine is allowed; default false.
    #[serde(default)]
    pub allow_http_loopback: bool,
    /// Deadline of one call in seconds, more than 0 and at most 300; default 30.
    #[serde(default = "thirty")]
    pub timeout_seconds: f64,
    /// How bodies are signed.
    pub signing: SigningConfig,
    /// An authentication header, if the CMS wants one.
    pub authorization: Option<AuthorizationConfig>,
}

/// Section `[cms.signing]`: HMAC-SHA256.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SigningConfig {
    /// Which key, a token.
    pub key_id: String,
    /// The environment variable that holds the key.
    pub key_env: Option<String>,
    /// The file that holds the key; its last line end is not part of it.
    pub key_file: Option<PathBuf>,
}

/// Section `[cms.authorization]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AuthorizationConfig {
    /// The header's name; default `Authorization`.
    #[serde(default = "authorization")]
    pub header: String,
    /// The environment variable that holds its value.
    pub value_env: Option<String>,
    /// The file that holds its value; its last line end is not part of it.
    pub value_file: Option<PathBuf>,
}

/// Section `[dispatch]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DispatchConfig {
    /// Attempts a change may have, 1 to 20; default 5.
    pub max_attempts: i64,
    /// Calls side by side, 1 to 1024; default 16.
    pub in_flight: usize,
    /// Length of a lease in seconds, longer than `cms.timeout_seconds`; default 600.
    pub lease_seconds: f64,
    /// Delay after the first failure in seconds; default 5.
    pub base_delay_seconds: f64,
    /// Longest delay in seconds; default 300.
    pub max_delay_seconds: f64,
    /// Largest `Retry-After` that is honoured, in seconds; default 3600.
    pub retry_after_max_seconds: f64,
}

impl std::fmt::Debug for Config {
    /// An origin that was not checked yet may carry anything.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("dispatch", &self.dispatch).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for CmsConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CmsConfig").finish_non_exhaustive()
    }
}

fn thirty() -> f64 {
    30.0
}

fn authorization() -> String {
    "Authorization".to_owned()
}

impl Default for DispatchConfig {
    fn default() -> Self {
        let delays = Delays::default();
        Self {
            max_attempts: 5,
            in_flight: 16,
            lease_seconds: crate::handle::LEASE_SECONDS,
            base_delay_seconds: delays.base_delay_seconds,
            max_delay_seconds: delays.max_delay_seconds,
            retry_after_max_seconds: delays.retry_after_max_seconds,
        }
    }
}

impl DispatchConfig {
    /// The delays of the flow.
    #[must_use]
    pub fn delays(&self) -> Delays {
        Delays {
            base_delay_seconds: self.base_delay_seconds,
            max_delay_seconds: self.max_delay_seconds,
            retry_after_max_seconds: self.retry_after_max_seconds,
            ..Delays::default()
        }
    }
}

impl Config {
    /// Reads and checks a file.
    ///
    /// # Errors
    /// [`ConfigInvalid`].
    pub fn read(path: &Path) -> Result<Self, ConfigInvalid> {
        let text = std::fs::read_to_string(path).map_err(|_| ConfigInvalid::Unreadable)?;
        let mut config = Self::parse(&text)?;
        config.folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(config)
    }

    /// Checks the text of a file.
    ///
    /// # Errors
    /// [`ConfigInvalid`].
    pub fn parse(text: &str) -> Result<Self, ConfigInvalid> {
        let config: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start.min(text.len()));
            ConfigInvalid::Syntax { line: text[..at].matches('\n').count() + 1 }
        })?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), ConfigInvalid> {
        let dispatch = &self.dispatch;
        let day = |seconds: f64| seconds > 0.0 && seconds <= 86_400.0;
        let rules = [
            (
                self.cms.timeout_seconds > 0.0 && self.cms.timeout_seconds <= 300.0,
                "cms.timeout_seconds",
                "more than 0, at most 300",
            ),
            ((1..=20).contains(&dispatch.max_attempts), "dispatch.max_attempts", "1 to 20"),
            ((1..=1024).contains(&dispatch.in_flight), "dispatch.in_flight", "1 to 1024"),
            (
                dispatch.lease_seconds > self.cms.timeout_seconds && day(dispatch.lease_seconds),
                "dispatch.lease_seconds",
                "longer than cms.timeout_seconds, at most 86400",
            ),
            (
                day(dispatch.retry_after_max_seconds),
                "dispatch.retry_after_max_seconds",
                "more than 0, at most 86400",
            ),
            (
                day(dispatch.max_delay_seconds),
                "dispatch.max_delay_seconds",
                "more than 0, at most 86400",
            ),
            (
                Policy::new(dispatch.delays()).is_ok(),
                "dispatch.base_delay_seconds",
                "more than 0, at most dispatch.max_delay_seconds",
            ),
        ];
        match rules.into_iter().find(|(kept, ..)| !kept) {
            Some((_, key, rule)) => Err(value(key, rule)),
            None => Ok(()),
        }
    }

    /// Makes the CMS client; reads the secrets now.
    ///
    /// # Errors
    /// [`ConfigInvalid::Value`].
    pub fn cms_client(&self) -> Result<CmsClient, ConfigInvalid> {
        let signing = &self.cms.signing;
        let key =
            self.secret("cms.signing", signing.key_env.as_deref(), signing.key_file.as_deref())?;
        let key_id = Token::new(&signing.key_id)
            .ok_or(value("cms.signing.key_id", "a token: letters, digits, _ . : -"))?;
        let signer = HmacSha256Signer::new(key_id, SecretSlice::from(key))
            .ok_or(value("cms.signing", "the key must not be empty"))?;
        let options = CmsOptions {
            origin: self.cms.origin.clone(),
            allow_http_loopback: self.cms.allow_http_loopback,
            timeout_seconds: self.cms.timeout_seconds,
        };
        let client = match &self.cms.authorization {
            None => CmsClient::new(&options, signer, NoAuthHeaders),
            Some(authorization) => {
                let secret = self.secret(
                    "cms.authorization",
                    authorization.value_env.as_deref(),
                    authorization.value_file.as_deref(),
                )?;
                let secret = String::from_utf8(secret)
                    .map_err(|_| value("cms.authorization", "the value must be text"))?;
                let secret = SecretString::from(secret);
                if !are_allowed(&[(authorization.header.clone(), secret.clone())]) {
                    return Err(value(
                        "cms.authorization",
                        "a header name that is not reserved, a value of 1 to 4096 visible ASCII characters",
                    ));
                }
                let header = StaticAuthHeader::new(authorization.header.clone(), secret);
                CmsClient::new(&options, signer, header)
            }
        };
        client.map_err(|_| {
            value(
                "cms.origin",
                "https://host[:port], or http to this machine with allow_http_loopback",
            )
        })
    }

    fn secret(
        &self,
        key: &'static str,
        variable: Option<&str>,
        file: Option<&Path>,
    ) -> Result<Vec<u8>, ConfigInvalid> {
        match (variable, file) {
            (Some(variable), None) => std::env::var(variable)
                .map(String::into_bytes)
                .map_err(|_| value(key, "the environment variable is not set")),
            (None, Some(file)) => {
                let mut bytes = std::fs::read(self.folder.join(file))
                    .map_err(|_| value(key, "the secret's file cannot be read"))?;
                for end in [b'\n', b'\r'] {
                    if bytes.last() == Some(&end) {
                        bytes.pop();
                    }
                }
                Ok(bytes)
            }
            (Some(_), Some(_)) | (None, None) => {
                Err(value(key, "name either a variable (.._env) or a file (.._file)"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLEST: &str = "[cms]\norigin = \"https://cms.example\"\n[cms.signing]\nkey_id = \"k\"\nkey_env = \"NOT_SET_ANYWHERE\"\n";

    #[test]
    fn the_smallest_file_has_the_documented_defaults() {
        let config = Config::parse(SMALLEST).expect("it is valid");
        assert_eq!(config.dispatch, DispatchConfig::default());
        assert_eq!(config.cms.timeout_seconds, 30.0);
        let missing = config.cms_client().err();
        assert_eq!(missing, Some(value("cms.signing", "the environment variable is not set")));
    }

    #[test]
    fn unknown_keys_and_wrong_kinds_are_named_by_line() {
        let unknown = format!("{SMALLEST}secret = \"canary\"\n");
        assert_eq!(Config::parse(&unknown), Err(ConfigInvalid::Syntax { line: 6 }));
        let kind = SMALLEST.replace("\"https://cms.example\"", "7");
        let error = Config::parse(&kind).expect_err("a number is no origin");
        assert_eq!(error, ConfigInvalid::Syntax { line: 2 });
        assert!(!error.to_string().contains("canary"));
    }

    #[test]
    fn secrets_lose_their_line_end_and_a_header_is_checked_before_anything_is_sent() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("c.toml");
        let file = SMALLEST.replace("key_env = \"NOT_SET_ANYWHERE\"", "key_file = \"key\"");
        std::fs::write(folder.path().join("key"), "secret\r\n").expect("writable");
        for (header, secret, good) in [
            ("X-A", "value\r\n", true),
            ("Authorization", "Bearer x", true),
            ("Content-Type", "x", false),
            ("X-A", "", false),
            ("X-A", "a\nb", false),
        ] {
            std::fs::write(folder.path().join("value"), secret).expect("writable");
            let section =
                format!("[cms.authorization]\nheader = \"{header}\"\nvalue_file = \"value\"\n");
            std::fs::write(&path, format!("{file}{section}")).expect("writable");
            let config = Config::read(&path).expect("it is valid");
            assert_eq!(config.secret("k", None, Some(Path::new("key"))), Ok(b"secret".to_vec()));
            assert_eq!(config.cms_client().is_ok(), good, "{header} {secret:?}");
        }
    }

    #[test]
    fn values_outside_of_their_rules_are_named_by_key() {
        for (line, key) in [
            ("max_attempts = 21", "dispatch.max_attempts"),
            ("in_flight = 0", "dispatch.in_flight"),
            ("lease_seconds = 30.0", "dispatch.lease_seconds"),
            ("base_delay_seconds = 301.0", "dispatch.base_delay_seconds"),
            ("retry_after_max_seconds = 0.0", "dispatch.retry_after_max_seconds"),
        ] {
            let error = Config::parse(&format!("{SMALLEST}[dispatch]\n{line}\n"))
                .expect_err("out of range");
            assert!(
                matches!(error, ConfigInvalid::Value { key: found, .. } if found == key),
                "{line}"
            );
        }
    }
}
