//! The command line's configuration file: TOML, unknown keys refused.
//!
//! Owns its shape, its defaults and its checks; `examples/leasehold.toml` documents every key.
//! Secrets are named here by variable or file and never written here.

mod endpoint;
mod flow;
mod limits;

pub use endpoint::{
    AuthorizationConfig, CmsConfig, ReceiverConfig, SecretConfig, SigningConfig, SourceConfig,
};
pub use flow::FlowConfig;
pub use limits::SideLimits;

use leasehold_actors::contract::text::Sha256;
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

/// Leases a record may lose in a row where nothing is said: what takes down five processes one after the
/// other is worth a look before it takes down the sixth.
pub const UNCLEAN_LOSSES_MAX: u32 = 5;

const fn unclean_losses_max() -> u32 {
    UNCLEAN_LOSSES_MAX
}

const fn value(key: &'static str, rule: &'static str) -> ConfigInvalid {
    ConfigInvalid::Value { key, rule }
}

/// The whole file. A flow is switched on by the endpoints it needs.
#[derive(Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Leases a record may lose in a row before it is left to an operator, at most 1000; 0 is no limit;
    /// default 5.
    #[serde(default = "unclean_losses_max")]
    pub unclean_losses_max: u32,
    /// Calls at once to all sides together, 3 to 3072; default 192. Half of an even share stays free for
    /// each side, so that one that hangs does not delay the others.
    #[serde(default = "limits::overall_in_flight_max")]
    pub in_flight_max: usize,
    /// The CMS: flows `dispatch` and `lifecycle`.
    pub cms: Option<CmsConfig>,
    /// The notification receiver: flows `notification` and `processing`.
    pub receiver: Option<ReceiverConfig>,
    /// The source runtime: flow `delivery`.
    pub source: Option<SourceConfig>,
    /// Flow `dispatch`.
    #[serde(default)]
    pub dispatch: FlowConfig,
    /// Flow `lifecycle`.
    #[serde(default)]
    pub lifecycle: FlowConfig,
    /// Flow `notification`.
    #[serde(default)]
    pub notification: FlowConfig,
    /// Flow `processing`.
    #[serde(default)]
    pub processing: FlowConfig,
    /// Flow `delivery`.
    #[serde(default)]
    pub delivery: FlowConfig,
    /// Where the file lies; files it names are relative to this.
    #[serde(skip)]
    folder: PathBuf,
}

impl std::fmt::Debug for Config {
    /// An origin that was not checked yet may carry anything.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Config").field("dispatch", &self.dispatch).finish_non_exhaustive()
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

    /// The pinned digests of the receiver and of the source runtime, where they are configured. Needs no
    /// secret and calls nobody.
    ///
    /// # Errors
    /// [`ConfigInvalid::Value`] for one that is no digest.
    pub fn digests(&self) -> Result<(Option<Sha256>, Option<Sha256>), ConfigInvalid> {
        let receiver = self.receiver.as_ref().map(ReceiverConfig::digest).transpose()?;
        let source = self.source.as_ref().map(SourceConfig::digest).transpose()?;
        Ok((receiver, source))
    }

    /// The folder that files named in the configuration are relative to.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// What each side is asked for at most. The largest `Retry-After` that stops a whole side is the
    /// largest that any of its flows honours.
    #[must_use]
    pub fn limits(&self) -> SideLimits {
        let retry_after = |flows: [&FlowConfig; 2]| {
            flows.map(|flow| flow.retry_after_max_seconds).into_iter().fold(0.0, f64::max)
        };
        let cms = retry_after([&self.dispatch, &self.lifecycle]);
        let receiver = retry_after([&self.notification, &self.processing]);
        let source = self.delivery.retry_after_max_seconds;
        let mut limits = SideLimits::default();
        if let Some(side) = &self.cms {
            limits.cms = side.limits(cms);
        }
        if let Some(side) = &self.receiver {
            limits.receiver = side.limits(receiver);
        }
        if let Some(side) = &self.source {
            limits.source = side.limits(source);
        }
        limits
    }

    fn check(&self) -> Result<(), ConfigInvalid> {
        let cms = self.cms.as_ref().map_or(0.0, |cms| cms.timeout_seconds);
        let receiver = self.receiver.as_ref().map_or(0.0, |receiver| receiver.timeout_seconds);
        let source = self.source.as_ref().map_or(0.0, |source| source.timeout_seconds);
        for (timeout, configured, key) in [
            (cms, self.cms.is_some(), "cms.timeout_seconds"),
            (receiver, self.receiver.is_some(), "receiver.timeout_seconds"),
            (source, self.source.is_some(), "source.timeout_seconds"),
        ] {
            if configured && !(timeout > 0.0 && timeout <= 300.0) {
                return Err(value(key, "more than 0, at most 300"));
            }
        }
        if self.unclean_losses_max > 1000 {
            return Err(value("unclean_losses_max", "at most 1000"));
        }
        // The receiver's and the source's clients make two requests a call.
        if self.source.as_ref().is_some_and(|side| !(1..=20).contains(&side.source_max_attempts)) {
            return Err(value("source.source_max_attempts", "1 to 20"));
        }
        self.dispatch.check(&flow::DISPATCH, cms)?;
        self.lifecycle.check(&flow::LIFECYCLE, cms)?;
        self.notification.check(&flow::NOTIFICATION, 2.0 * receiver)?;
        self.processing.check(&flow::PROCESSING, 2.0 * receiver)?;
        self.delivery.check(&flow::DELIVERY, 2.0 * source)?;
        limits::check_overall(self.in_flight_max)?;
        let sides = self.limits();
        limits::check(&sides.cms, &limits::CMS)?;
        limits::check(&sides.receiver, &limits::RECEIVER)?;
        limits::check(&sides.source, &limits::SOURCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALLEST: &str = "[cms]\norigin = \"https://cms.example\"\n[cms.signing]\nkey_id = \"k\"\nkey_env = \"NOT_SET_ANYWHERE\"\n";

    #[test]
    fn the_smallest_file_has_the_documented_defaults() {
        let config = Config::parse(SMALLEST).expect("it is valid");
        assert_eq!(config.dispatch, FlowConfig::default());
        assert_eq!(config.unclean_losses_max, 5);
        assert_eq!(config.cms.as_ref().expect("a section").timeout_seconds, 30.0);
        let missing = config.cms.as_ref().expect("a section").client(config.folder()).err();
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
            assert_eq!(
                SecretConfig { env: None, file: Some("key".into()) }.read("k", config.folder()),
                Ok(b"secret".to_vec())
            );
            assert_eq!(
                config.cms.as_ref().expect("a section").client(config.folder()).is_ok(),
                good,
                "{header} {secret:?}"
            );
        }
    }

    #[test]
    fn a_sides_limits_have_the_documented_defaults_and_are_named_by_key() {
        let config = Config::parse(SMALLEST).expect("it is valid");
        assert_eq!((config.in_flight_max, config.limits()), (192, SideLimits::default()));
        let flows = "[dispatch]\nretry_after_max_seconds = 7.0\n\
                     [lifecycle]\nretry_after_max_seconds = 9.0\n";
        let config = Config::parse(&format!("{SMALLEST}{flows}")).expect("it is valid");
        assert_eq!(config.limits().cms.retry_after_max_seconds, 9.0);
        let with =
            |line: &str| Config::parse(&SMALLEST.replace("[cms]", &format!("[cms]\n{line}")));
        let rate = with("requests_per_second = 50").expect("it is valid").limits().cms;
        assert_eq!(rate.requests_per_second, Some(50.0));
        for (line, key) in [
            ("in_flight_max = 0", "cms.in_flight_max"),
            ("in_flight_max = 1025", "cms.in_flight_max"),
            ("requests_per_second = 0.0", "cms.requests_per_second"),
            ("burst = 0", "cms.burst"),
            ("breaker_failures = 1001", "cms.breaker_failures"),
            ("breaker_open_seconds = 0.0", "cms.breaker_open_seconds"),
            ("breaker_open_max_seconds = 4.9", "cms.breaker_open_max_seconds"),
        ] {
            let error = with(line).expect_err("out of range");
            assert!(matches!(error, ConfigInvalid::Value { key: found, .. } if found == key));
        }
        for all in ["in_flight_max = 2", "in_flight_max = 3073"] {
            let error = Config::parse(&format!("{all}\n{SMALLEST}")).expect_err("out of range");
            assert_eq!(error, value("in_flight_max", "3 to 3072"));
        }
        assert!(Config::parse(&format!("in_flight_max = 3\n{SMALLEST}")).is_ok());
    }

    #[test]
    fn values_outside_of_their_rules_are_named_by_key() {
        for (line, key) in [
            ("max_attempts = 21", "dispatch.max_attempts"),
            ("in_flight = 0", "dispatch.in_flight"),
            ("lease_seconds = 30.0", "dispatch.lease_seconds"),
            ("base_delay_seconds = 301.0", "dispatch.base_delay_seconds"),
            ("retry_after_max_seconds = 0.0", "dispatch.retry_after_max_seconds"),
            ("jitter_share = 1.1", "dispatch.jitter_share"),
            ("jitter_share = -0.1", "dispatch.jitter_share"),
        ] {
            let error = Config::parse(&format!("{SMALLEST}[dispatch]\n{line}\n"))
                .expect_err("out of range");
            assert!(
                matches!(error, ConfigInvalid::Value { key: found, .. } if found == key),
                "{line}"
            );
        }
    }

    #[test]
    fn jitter_is_off_unless_a_flow_has_a_share_of_it() {
        let config = Config::parse(&format!("{SMALLEST}[dispatch]\njitter_share = 0.2\n"));
        let config = config.expect("it is valid");
        assert_eq!(config.dispatch.delays().jitter_share, 0.2);
        assert_eq!(config.lifecycle.delays().jitter_share, 0.0);
    }

    #[test]
    fn leases_lost_in_a_row_have_a_limit_that_can_be_switched_off() {
        for (line, known) in [("0", Some(0)), ("1000", Some(1000)), ("1001", None), ("-1", None)] {
            let config = Config::parse(&format!("unclean_losses_max = {line}\n{SMALLEST}"));
            assert_eq!(config.map(|config| config.unclean_losses_max).ok(), known, "{line}");
        }
    }
}
