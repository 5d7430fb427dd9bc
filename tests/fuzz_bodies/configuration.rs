//! The text of a configuration file.

use leasehold::config::{Config, ConfigInvalid, FlowConfig};
use leasehold_actors::record::Policy;

/// Holds for any bytes; answers how far they came.
pub(crate) fn body(data: &[u8]) -> Vec<&'static str> {
    let Ok(text) = std::str::from_utf8(data) else { return Vec::new() };
    match Config::parse(text) {
        Ok(config) => {
            check(&config);
            let commented = format!("{text}\n# a comment\n");
            assert!(Config::parse(&commented).as_ref() == Ok(&config), "a comment says nothing");
            let unknown = format!("no_such_key = 1\n{text}");
            let refused = Config::parse(&unknown);
            assert!(matches!(refused, Err(ConfigInvalid::Syntax { .. })), "keys are known");
            vec!["configuration"]
        }
        Err(ConfigInvalid::Syntax { line }) => {
            assert!((1..=text.matches('\n').count() + 1).contains(&line), "line {line}");
            Vec::new()
        }
        Err(ConfigInvalid::Value { key, rule }) => {
            assert!(!key.is_empty() && !rule.is_empty());
            vec!["a value outside of its rule"]
        }
        Err(ConfigInvalid::Unreadable) => panic!("no file was read"),
    }
}

fn check(config: &Config) {
    assert!(config.unclean_losses_max <= 1000);
    let cms = config.cms.as_ref().map(|cms| cms.timeout_seconds);
    let receiver = config.receiver.as_ref().map(|receiver| receiver.timeout_seconds);
    let source = config.source.as_ref().map(|source| source.timeout_seconds);
    for timeout in [cms, receiver, source].into_iter().flatten() {
        assert!(timeout > 0.0 && timeout <= 300.0, "{timeout}");
    }
    let twice = |timeout: Option<f64>| 2.0 * timeout.unwrap_or(0.0);
    check_flow(&config.dispatch, cms.unwrap_or(0.0));
    check_flow(&config.lifecycle, cms.unwrap_or(0.0));
    check_flow(&config.notification, twice(receiver));
    check_flow(&config.processing, twice(receiver));
    check_flow(&config.delivery, twice(source));
    assert!((3..=3072).contains(&config.in_flight_max));
    let limits = config.limits();
    for side in [limits.cms, limits.receiver, limits.source] {
        assert_eq!(side.check(), Ok(()));
    }
}

/// What a flow is started with is within the limits that the engine asks for.
fn check_flow(flow: &FlowConfig, longest_call: f64) {
    assert!((1..=20).contains(&flow.max_attempts));
    assert!((1..=1024).contains(&flow.in_flight));
    assert!(flow.lease_seconds > longest_call && flow.lease_seconds <= 86_400.0);
    assert!(Policy::new(flow.delays()).is_ok());
}
