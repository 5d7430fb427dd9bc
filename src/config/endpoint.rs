//! The other sides: `[cms]`, `[receiver]`, `[source]`.

use super::{ConfigInvalid, limits, value};
use crate::http::credentials::are_allowed;
use crate::http::{
    CmsClient, CmsOptions, HmacSha256Signer, NoAuthHeaders, ReceiverClient, ReceiverOptions,
    SourceClient, SourceOptions, StaticAuthHeader,
};
use leasehold_actors::contract::text::{Sha256, Token};
use leasehold_actors::destination::Limits;
use secrecy::{SecretSlice, SecretString};
use serde::Deserialize;
use std::path::{Path, PathBuf};

const ORIGIN: &str = "https://host[:port], or http to this machine with allow_http_loopback";

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
    /// Calls to it at once, 1 to 1024; default 64.
    #[serde(default = "limits::in_flight_max")]
    pub in_flight_max: usize,
    /// Calls to it that start per second, 0.001 to 100000; default no limit.
    pub requests_per_second: Option<f64>,
    /// Calls that may start at once after a pause, 1 to 10000; default 10.
    #[serde(default = "limits::burst")]
    pub burst: u32,
    /// The breaker opens after so many failures in a row that may pass, 1 to 1000; default 10.
    #[serde(default = "limits::breaker_failures")]
    pub breaker_failures: u32,
    /// How long it stays open the first time, in seconds; default 5, at most 86400.
    #[serde(default = "limits::breaker_open_seconds")]
    pub breaker_open_seconds: f64,
    /// How long at most, in seconds, at least the first time; default 60, at most 86400.
    #[serde(default = "limits::breaker_open_max_seconds")]
    pub breaker_open_max_seconds: f64,
    /// How bodies are signed.
    pub signing: SigningConfig,
    /// An authentication header, if the CMS wants one.
    pub authorization: Option<AuthorizationConfig>,
}

/// Section `[receiver]`: where notifications go and are asked about.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReceiverConfig {
    /// `https://host[:port]`.
    pub origin: String,
    /// Whether `http` to this machine is allowed; default false.
    #[serde(default)]
    pub allow_http_loopback: bool,
    /// Deadline of one request in seconds, more than 0 and at most 300; default 30. One call makes two.
    #[serde(default = "thirty")]
    pub timeout_seconds: f64,
    /// Its pinned capability digest, 64 lower-case hex digits.
    pub capabilities_sha256: String,
    /// Calls to it at once, 1 to 1024; default 64.
    #[serde(default = "limits::in_flight_max")]
    pub in_flight_max: usize,
    /// Calls to it that start per second, 0.001 to 100000; default no limit.
    pub requests_per_second: Option<f64>,
    /// Calls that may start at once after a pause, 1 to 10000; default 10.
    #[serde(default = "limits::burst")]
    pub burst: u32,
    /// The breaker opens after so many failures in a row that may pass, 1 to 1000; default 10.
    #[serde(default = "limits::breaker_failures")]
    pub breaker_failures: u32,
    /// How long it stays open the first time, in seconds; default 5, at most 86400.
    #[serde(default = "limits::breaker_open_seconds")]
    pub breaker_open_seconds: f64,
    /// How long at most, in seconds, at least the first time; default 60, at most 86400.
    #[serde(default = "limits::breaker_open_max_seconds")]
    pub breaker_open_max_seconds: f64,
    /// The authentication header it wants.
    pub authorization: AuthorizationConfig,
}

/// Section `[source]`: the source runtime.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SourceConfig {
    /// `https://host[:port]`.
    pub origin: String,
    /// Whether `http` to this machine is allowed; default false.
    #[serde(default)]
    pub allow_http_loopback: bool,
    /// Deadline of one request in seconds, more than 0 and at most 300; default 30. One call makes two.
    #[serde(default = "thirty")]
    pub timeout_seconds: f64,
    /// Its pinned capability digest, 64 lower-case hex digits.
    pub capabilities_sha256: String,
    /// Attempts the source runtime is asked to make itself, 1 to 20; default 5.
    #[serde(default = "five")]
    pub source_max_attempts: i64,
    /// Calls to it at once, 1 to 1024; default 64.
    #[serde(default = "limits::in_flight_max")]
    pub in_flight_max: usize,
    /// Calls to it that start per second, 0.001 to 100000; default no limit.
    pub requests_per_second: Option<f64>,
    /// Calls that may start at once after a pause, 1 to 10000; default 10.
    #[serde(default = "limits::burst")]
    pub burst: u32,
    /// The breaker opens after so many failures in a row that may pass, 1 to 1000; default 10.
    #[serde(default = "limits::breaker_failures")]
    pub breaker_failures: u32,
    /// How long it stays open the first time, in seconds; default 5, at most 86400.
    #[serde(default = "limits::breaker_open_seconds")]
    pub breaker_open_seconds: f64,
    /// How long at most, in seconds, at least the first time; default 60, at most 86400.
    #[serde(default = "limits::breaker_open_max_seconds")]
    pub breaker_open_max_seconds: f64,
    /// The authentication header it wants.
    pub authorization: AuthorizationConfig,
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

/// Sections `[cms.authorization]`, `[receiver.authorization]`, `[source.authorization]`.
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

/// Where a secret is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretConfig {
    /// In this environment variable.
    pub env: Option<String>,
    /// In this file.
    pub file: Option<PathBuf>,
}

fn thirty() -> f64 {
    30.0
}

fn five() -> i64 {
    5
}

fn authorization() -> String {
    "Authorization".to_owned()
}

impl SecretConfig {
    /// Reads the secret; `key` names it in messages.
    ///
    /// # Errors
    /// [`ConfigInvalid::Value`].
    pub fn read(&self, key: &'static str, folder: &Path) -> Result<Vec<u8>, ConfigInvalid> {
        match (&self.env, &self.file) {
            (Some(variable), None) => std::env::var(variable)
                .map(String::into_bytes)
                .map_err(|_| value(key, "the environment variable is not set")),
            (None, Some(file)) => {
                let mut bytes = std::fs::read(folder.join(file))
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

impl AuthorizationConfig {
    fn header(&self, key: &'static str, folder: &Path) -> Result<StaticAuthHeader, ConfigInvalid> {
        let secret = SecretConfig { env: self.value_env.clone(), file: self.value_file.clone() };
        let secret = String::from_utf8(secret.read(key, folder)?)
            .map_err(|_| value(key, "the value must be text"))?;
        let secret = SecretString::from(secret);
        if !are_allowed(&[(self.header.clone(), secret.clone())]) {
            let rule =
                "a header name that is not reserved, a value of 1 to 4096 visible ASCII characters";
            return Err(value(key, rule));
        }
        Ok(StaticAuthHeader::new(self.header.clone(), secret))
    }
}

fn digest(key: &'static str, text: &str) -> Result<Sha256, ConfigInvalid> {
    Sha256::from_hex(text).ok_or(value(key, "64 lower-case hex digits"))
}

impl CmsConfig {
    pub(super) fn limits(&self, retry_after_max_seconds: f64) -> Limits {
        Limits {
            in_flight_max: self.in_flight_max,
            requests_per_second: self.requests_per_second,
            burst: self.burst,
            breaker_failures: self.breaker_failures,
            breaker_open_seconds: self.breaker_open_seconds,
            breaker_open_max_seconds: self.breaker_open_max_seconds,
            retry_after_max_seconds,
            slow_start: true,
        }
    }

    /// Makes the client; reads the secrets now.
    ///
    /// # Errors
    /// [`ConfigInvalid::Value`].
    pub fn client(&self, folder: &Path) -> Result<CmsClient, ConfigInvalid> {
        let key =
            SecretConfig { env: self.signing.key_env.clone(), file: self.signing.key_file.clone() };
        let key = SecretSlice::from(key.read("cms.signing", folder)?);
        let key_id = Token::new(&self.signing.key_id)
            .ok_or(value("cms.signing.key_id", "a token: letters, digits, _ . : -"))?;
        let signer = HmacSha256Signer::new(key_id, key)
            .ok_or(value("cms.signing", "the key must not be empty"))?;
        let options = CmsOptions {
            origin: self.origin.clone(),
            allow_http_loopback: self.allow_http_loopback,
            timeout_seconds: self.timeout_seconds,
        };
        let client = match &self.authorization {
            None => CmsClient::new(&options, signer, NoAuthHeaders),
            Some(authorization) => {
                let header = authorization.header("cms.authorization", folder)?;
                CmsClient::new(&options, signer, header)
            }
        };
        client.map_err(|_| value("cms.origin", ORIGIN))
    }
}

impl ReceiverConfig {
    /// Its pinned capability digest, checked.
    pub(super) fn digest(&self) -> Result<Sha256, ConfigInvalid> {
        digest("receiver.capabilities_sha256", &self.capabilities_sha256)
    }

    pub(super) fn limits(&self, retry_after_max_seconds: f64) -> Limits {
        Limits {
            in_flight_max: self.in_flight_max,
            requests_per_second: self.requests_per_second,
            burst: self.burst,
            breaker_failures: self.breaker_failures,
            breaker_open_seconds: self.breaker_open_seconds,
            breaker_open_max_seconds: self.breaker_open_max_seconds,
            retry_after_max_seconds,
            slow_start: true,
        }
    }

    /// Makes the client; reads the secrets now.
    ///
    /// # Errors
    /// [`ConfigInvalid::Value`].
    pub fn client(&self, folder: &Path) -> Result<ReceiverClient, ConfigInvalid> {
        let pin = self.digest()?;
        let mut options = ReceiverOptions::new(self.origin.clone(), pin);
        options.allow_http_loopback = self.allow_http_loopback;
        options.timeout_seconds = self.timeout_seconds;
        let header = self.authorization.header("receiver.authorization", folder)?;
        ReceiverClient::new(&options, header).map_err(|_| value("receiver.origin", ORIGIN))
    }
}

impl SourceConfig {
    /// Its pinned capability digest, checked.
    pub(super) fn digest(&self) -> Result<Sha256, ConfigInvalid> {
        digest("source.capabilities_sha256", &self.capabilities_sha256)
    }

    pub(super) fn limits(&self, retry_after_max_seconds: f64) -> Limits {
        Limits {
            in_flight_max: self.in_flight_max,
            requests_per_second: self.requests_per_second,
            burst: self.burst,
            breaker_failures: self.breaker_failures,
            breaker_open_seconds: self.breaker_open_seconds,
            breaker_open_max_seconds: self.breaker_open_max_seconds,
            retry_after_max_seconds,
            slow_start: true,
        }
    }

    /// Makes the client; reads the secrets now.
    ///
    /// # Errors
    /// [`ConfigInvalid::Value`].
    pub fn client(&self, folder: &Path) -> Result<SourceClient, ConfigInvalid> {
        let pin = self.digest()?;
        let mut options = SourceOptions::new(self.origin.clone(), pin);
        options.allow_http_loopback = self.allow_http_loopback;
        options.timeout_seconds = self.timeout_seconds;
        let header = self.authorization.header("source.authorization", folder)?;
        SourceClient::new(&options, header).map_err(|_| value("source.origin", ORIGIN))
    }
}

impl std::fmt::Debug for CmsConfig {
    /// An origin that was not checked yet may carry anything.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CmsConfig").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ReceiverConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiverConfig").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for SourceConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceConfig").finish_non_exhaustive()
    }
}
