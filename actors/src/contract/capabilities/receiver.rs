//! The surface of the receiver of terminal notifications (contract 3.5).

use super::{Route, count, digest, object, text, texts, with_digest};
use crate::contract::json::Value;
use crate::contract::notification::{ACK_SCHEMA, SCHEMA};
use crate::contract::receiver::{REQUEST_SCHEMA, RESPONSE_FIELDS, RESPONSE_SCHEMA};
use crate::contract::text::Sha256;

/// The document itself.
pub const CAPABILITIES: Route = Route {
    name: "capabilities",
    path: "/v1/localization/terminal-notifications/capabilities",
    scope: "terminal-notification-capabilities:read",
    principal_schema: None,
    request_schema: None,
    request_fields: &[],
    response_schema: "blun.cms-terminal-receiver-capabilities-response.v2",
    response_fields: &["schema", "capabilities"],
    success_status: 200,
};

/// How the receiver is.
pub const HEALTH: Route = Route {
    name: "health",
    path: "/v1/localization/terminal-notifications/health",
    scope: "terminal-notification-health:read",
    principal_schema: None,
    request_schema: None,
    request_fields: &[],
    response_schema: "blun.cms-terminal-receiver-health.v1",
    response_fields: &[
        "schema",
        "status",
        "runtime_state",
        "worker_state",
        "inbox_status",
        "received",
        "processing_counts",
        "processing_due",
        "expired_leases",
        "failed",
        "error_code",
        "capabilities_sha256",
    ],
    success_status: 200,
};

/// Takes a notification; its path is the usual one, a receiver's document may name another.
pub const NOTIFICATION: Route = Route {
    name: "notification",
    path: "/v1/localization/terminal-notifications",
    scope: "terminal-notification:write",
    principal_schema: None,
    request_schema: Some(SCHEMA),
    request_fields: &[
        "schema",
        "notification_id",
        "event_id",
        "site_id",
        "plan_id",
        "website_version",
        "source_sequence",
        "job_count",
        "change_sha256",
        "lifecycle_binding_sha256",
        "terminal_status",
        "lifecycle_sha256",
    ],
    response_schema: ACK_SCHEMA,
    response_fields: &[
        "schema",
        "notification_id",
        "event_id",
        "site_id",
        "status",
        "notification_sha256",
    ],
    success_status: 200,
};

/// Its OpenAPI document.
pub const OPENAPI: Route = Route {
    name: "openapi",
    path: "/v1/localization/terminal-notifications/openapi",
    scope: "terminal-notification-openapi:read",
    principal_schema: None,
    request_schema: None,
    request_fields: &[],
    response_schema: "blun.cms-terminal-receiver-openapi-response.v1",
    response_fields: &["schema", "openapi", "openapi_sha256", "capabilities_sha256"],
    success_status: 200,
};

/// Whether the receiver takes work.
pub const READINESS: Route = Route {
    name: "readiness",
    path: "/v1/localization/terminal-notifications/readiness",
    scope: "terminal-notification-readiness:read",
    principal_schema: None,
    request_schema: None,
    request_fields: &[],
    response_schema: "blun.cms-terminal-receiver-readiness.v1",
    response_fields: &[
        "schema",
        "status",
        "worker_state",
        "inbox_status",
        "error_code",
        "capabilities_sha256",
    ],
    success_status: 200,
};

/// What became of a notification.
pub const STATUS: Route = Route {
    name: "status",
    path: "/v1/localization/terminal-notifications/status",
    scope: "terminal-notification-status:read",
    principal_schema: None,
    request_schema: Some(REQUEST_SCHEMA),
    request_fields: &["schema", "event_id", "site_id"],
    response_schema: RESPONSE_SCHEMA,
    response_fields: &RESPONSE_FIELDS,
    success_status: 200,
};

/// The routes whose path never varies.
const CONTROLS: [&Route; 5] = [&CAPABILITIES, &HEALTH, &OPENAPI, &READINESS, &STATUS];

const PROCESSING_STATUSES: &[&str] = &["pending", "leased", "retry_wait", "succeeded", "failed"];

const TERMINAL_STATUSES: &[&str] = &[
    "cancelled",
    "deleted",
    "deletion_failed",
    "localization_failed",
    "publication_blocked",
    "publication_failed",
    "published",
    "superseded",
];

/// The document of a receiver that takes notifications at this path, with its digest.
#[must_use]
pub fn receiver_document(notification_path: &str) -> Value {
    let mut operations = vec![(NOTIFICATION.name, NOTIFICATION.entry(notification_path))];
    operations.extend(CONTROLS.map(|route| (route.name, route.entry(route.path))));
    let limits = vec![
        ("max_body_bytes", count(16_384)),
        ("max_header_value_bytes", count(4096)),
        ("max_headers", count(64)),
        ("max_response_bytes", count(1_000_000)),
        ("processing_max_attempts_max", count(20)),
        ("processing_max_attempts_min", count(1)),
    ];
    with_digest(&object(vec![
        ("schema", text("blun.cms-terminal-receiver-capabilities.v2")),
        ("api_schema", text("blun.cms-terminal-receiver-api.v2")),
        (
            "authentication_request_schema",
            text("blun.cms-source-terminal-notification-http-auth.v1"),
        ),
        ("error_schema", text("blun.cms-source-terminal-notification-http-error.v1")),
        ("principal_schema", text("blun.cms-source-terminal-notification-principal.v1")),
        ("openapi_document_schema", text("blun.cms-terminal-receiver-openapi.v1")),
        ("processing_statuses", texts(PROCESSING_STATUSES)),
        ("terminal_statuses", texts(TERMINAL_STATUSES)),
        ("limits", Value::Object(object(limits))),
        ("operations", Value::Object(object(operations))),
    ]))
}

/// Where the receiver of a document takes notifications. `None` for a document that is not ours but
/// for this one path, for a path that is a control's or does not start with exactly one `/`, and for
/// a digest that is not the pin.
#[must_use]
pub fn receiver_notification_path(document: &Value, pin: Sha256) -> Option<String> {
    let operations = document.as_object()?.get("operations")?.as_object()?;
    let path = operations.get(NOTIFICATION.name)?.as_object()?.text("path")?;
    let good = path.starts_with('/')
        && !path.starts_with("//")
        && CONTROLS.iter().all(|control| control.path != path)
        && *document == receiver_document(path)
        && digest(document) == Some(pin);
    good.then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::canonical;
    use crate::contract::json::Object;
    use crate::contract::text::Token;

    const EXAMPLE: &str = r#"{"api_schema":"blun.cms-terminal-receiver-api.v2","authentication_request_schema":"blun.cms-source-terminal-notification-http-auth.v1","error_schema":"blun.cms-source-terminal-notification-http-error.v1","limits":{"max_body_bytes":16384,"max_header_value_bytes":4096,"max_headers":64,"max_response_bytes":1000000,"processing_max_attempts_max":20,"processing_max_attempts_min":1},"openapi_document_schema":"blun.cms-terminal-receiver-openapi.v1","operations":{"capabilities":{"method":"GET","path":"/v1/localization/terminal-notifications/capabilities","request_fields":[],"request_schema":null,"response_fields":["schema","capabilities"],"response_schema":"blun.cms-terminal-receiver-capabilities-response.v2","scope":"terminal-notification-capabilities:read","success_status":200},"health":{"method":"GET","path":"/v1/localization/terminal-notifications/health","request_fields":[],"request_schema":null,"response_fields":["schema","status","runtime_state","worker_state","inbox_status","received","processing_counts","processing_due","expired_leases","failed","error_code","capabilities_sha256"],"response_schema":"blun.cms-terminal-receiver-health.v1","scope":"terminal-notification-health:read","success_status":200},"notification":{"method":"POST","path":"/v1/localization/terminal-notifications","request_fields":["schema","notification_id","event_id","site_id","plan_id","website_version","source_sequence","job_count","change_sha256","lifecycle_binding_sha256","terminal_status","lifecycle_sha256"],"request_schema":"blun.cms-source-terminal-notification.v1","response_fields":["schema","notification_id","event_id","site_id","status","notification_sha256"],"response_schema":"blun.cms-source-terminal-notification-ack.v1","scope":"terminal-notification:write","success_status":200},"openapi":{"method":"GET","path":"/v1/localization/terminal-notifications/openapi","request_fields":[],"request_schema":null,"response_fields":["schema","openapi","openapi_sha256","capabilities_sha256"],"response_schema":"blun.cms-terminal-receiver-openapi-response.v1","scope":"terminal-notification-openapi:read","success_status":200},"readiness":{"method":"GET","path":"/v1/localization/terminal-notifications/readiness","request_fields":[],"request_schema":null,"response_fields":["schema","status","worker_state","inbox_status","error_code","capabilities_sha256"],"response_schema":"blun.cms-terminal-receiver-readiness.v1","scope":"terminal-notification-readiness:read","success_status":200},"status":{"method":"POST","path":"/v1/localization/terminal-notifications/status","request_fields":["schema","event_id","site_id"],"request_schema":"blun.cms-terminal-receiver-status-request.v1","response_fields":["schema","notification_id","event_id","site_id","terminal_status","notification_sha256","processing_status","attempts","max_attempts","next_attempt_at","lease_expires_at","lease_expired","last_error_code","processed_at","capabilities_sha256"],"response_schema":"blun.cms-terminal-receiver-status-response.v1","scope":"terminal-notification-status:read","success_status":200}},"principal_schema":"blun.cms-source-terminal-notification-principal.v1","processing_statuses":["pending","leased","retry_wait","succeeded","failed"],"schema":"blun.cms-terminal-receiver-capabilities.v2","sha256":"0aaae401a02d914a572d389a89b22da00d2df2e07c8a2331c69d1609456e8690","terminal_statuses":["cancelled","deleted","deletion_failed","localization_failed","publication_blocked","publication_failed","published","superseded"]}"#;

    fn pin() -> Sha256 {
        Sha256::from_hex("0aaae401a02d914a572d389a89b22da00d2df2e07c8a2331c69d1609456e8690")
            .expect("64 digits")
    }

    fn members(document: &Value) -> &Object {
        document.as_object().expect("an object")
    }

    /// The document at this path and the digest it has, both as they would be pinned.
    fn at(path: &str) -> (Value, Sha256) {
        let document = receiver_document(path);
        let pin = digest(&document).expect("a digest of our own");
        (document, pin)
    }

    #[test]
    fn the_document_is_the_one_of_the_contract_to_the_byte() {
        let document = receiver_document(NOTIFICATION.path);
        assert_eq!(canonical::print(&document), EXAMPLE);
        assert_eq!(digest(&document), Some(pin()));
    }

    #[test]
    fn the_question_is_the_one_of_the_contract() {
        let event_id = Token::new("evt-2031-0007").expect("a token");
        let site_id = Token::new("shop-north").expect("a token");
        let known = "b1a9cd0002d494e273787ee3ce3db3b720f063a832b7abd523573be0a001cfdc";
        let question = STATUS.question(&event_id, &site_id);
        assert_eq!(Some(question.sha256()), Sha256::from_hex(known));
    }

    #[test]
    fn only_the_notification_path_may_vary() {
        let document = Value::parse(EXAMPLE.as_bytes()).expect("JSON");
        let usual = NOTIFICATION.path.to_owned();
        assert_eq!(receiver_notification_path(&document, pin()), Some(usual));
        let (document, pin) = at("/terminal");
        assert_eq!(receiver_notification_path(&document, pin), Some("/terminal".to_owned()));
    }

    #[test]
    fn paths_that_are_none_or_a_controls_are_refused() {
        for path in ["", "terminal", "//terminal", HEALTH.path, STATUS.path] {
            let (document, pin) = at(path);
            assert_eq!(receiver_notification_path(&document, pin), None, "{path:?}");
        }
    }

    #[test]
    fn i5_another_pin_and_a_document_that_was_hashed_again_are_refused() {
        let (document, pin) = at(NOTIFICATION.path);
        assert_eq!(receiver_notification_path(&document, Sha256::of(b"")), None);
        let changed = members(&document).without("sha256").with("limits", Value::Null);
        let changed = with_digest(&changed);
        let changed_pin = digest(&changed).expect("a digest of its own");
        assert_eq!(receiver_notification_path(&changed, changed_pin), None);
        let stale = Value::Object(members(&document).with("limits", Value::Null));
        assert_eq!(receiver_notification_path(&stale, pin), None);
        let more = Value::Object(members(&document).with("more", Value::Null));
        assert_eq!(receiver_notification_path(&more, pin), None);
        assert_eq!(receiver_notification_path(&Value::Null, pin), None);
    }
}
