//! The source runtime's surface (contract 3.3).

use super::{Route, count, object, text, with_digest};
use crate::contract::json::Value;
use crate::contract::source::{
    CHANGE_REQUEST_SCHEMA, CHANGE_RESPONSE_SCHEMA, REMOVAL_REQUEST_SCHEMA, REMOVAL_RESPONSE_SCHEMA,
};

const PRINCIPAL: Option<&str> = Some("blun.cms-source-runtime-principal.v1");

const ENQUEUED_FIELDS: &[&str] = &[
    "schema",
    "operation",
    "request_id",
    "event_id",
    "payload_sha256",
    "status",
    "attempts",
    "max_attempts",
    "capabilities_sha256",
];

/// The document itself.
pub const CAPABILITIES: Route = Route {
    name: "capabilities",
    path: "/v1/localization/source/capabilities",
    scope: "source-capabilities:read",
    principal_schema: PRINCIPAL,
    request_schema: None,
    request_fields: &[],
    response_schema: "blun.cms-source-capabilities-response.v1",
    response_fields: &["schema", "capabilities"],
    success_status: 200,
};

/// Enqueues a change.
pub const CHANGE: Route = Route {
    name: "change",
    path: "/v1/localization/source/changes",
    scope: "source-change:write",
    principal_schema: PRINCIPAL,
    request_schema: Some(CHANGE_REQUEST_SCHEMA),
    request_fields: &["schema", "change", "max_attempts"],
    response_schema: CHANGE_RESPONSE_SCHEMA,
    response_fields: ENQUEUED_FIELDS,
    success_status: 202,
};

/// Enqueues a cancellation or a tombstone.
pub const REMOVAL: Route = Route {
    name: "removal",
    path: "/v1/localization/source/removals",
    scope: "source-removal:write",
    principal_schema: PRINCIPAL,
    request_schema: Some(REMOVAL_REQUEST_SCHEMA),
    request_fields: &["schema", "removal", "max_attempts"],
    response_schema: REMOVAL_RESPONSE_SCHEMA,
    response_fields: ENQUEUED_FIELDS,
    success_status: 202,
};

/// Where one event stands.
pub const STATUS: Route = Route {
    name: "status",
    path: "/v1/localization/source/status",
    scope: "source-status:read",
    principal_schema: Some("blun.cms-source-status-principal.v1"),
    request_schema: Some("blun.cms-source-status-request.v1"),
    request_fields: &["schema", "event_id", "site_id"],
    response_schema: "blun.cms-source-status-response.v4",
    response_fields: &["schema", "status", "capabilities_sha256"],
    success_status: 200,
};

/// How the runtime is.
pub const HEALTH: Route = Route {
    name: "health",
    path: "/v1/localization/source/health",
    scope: "source-health:read",
    principal_schema: PRINCIPAL,
    request_schema: None,
    request_fields: &[],
    response_schema: "blun.cms-source-health-response.v4",
    response_fields: &["schema", "health", "capabilities_sha256"],
    success_status: 200,
};

/// Whether the runtime takes work.
pub const READINESS: Route = Route {
    name: "readiness",
    path: "/v1/localization/source/readiness",
    scope: "source-readiness:read",
    principal_schema: PRINCIPAL,
    request_schema: None,
    request_fields: &[],
    response_schema: "blun.cms-source-readiness-response.v2",
    response_fields: &["schema", "readiness", "capabilities_sha256"],
    success_status: 200,
};

/// The document of the source runtime, with its digest.
#[must_use]
pub fn source_document() -> Value {
    let routes = [&CAPABILITIES, &CHANGE, &HEALTH, &READINESS, &REMOVAL, &STATUS];
    let operations = routes.map(|route| (route.name, route.entry(route.path))).into();
    let limits = vec![
        ("max_attempts_max", count(20)),
        ("max_attempts_min", count(1)),
        ("max_body_bytes", count(4_000_000)),
        ("max_header_value_bytes", count(4096)),
        ("max_headers", count(64)),
    ];
    with_digest(&object(vec![
        ("schema", text("blun.cms-source-runtime-capabilities.v1")),
        ("api_schema", text("blun.cms-source-runtime-api.v1")),
        ("authentication_request_schema", text("blun.cms-source-runtime-http-auth-request.v1")),
        ("error_schema", text("blun.cms-source-runtime-http-error.v1")),
        ("limits", Value::Object(object(limits))),
        ("operations", Value::Object(object(operations))),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::canonical;
    use crate::contract::capabilities::digest;
    use crate::contract::text::Sha256;

    const EXAMPLE: &str = r#"{"api_schema":"blun.cms-source-runtime-api.v1","authentication_request_schema":"blun.cms-source-runtime-http-auth-request.v1","error_schema":"blun.cms-source-runtime-http-error.v1","limits":{"max_attempts_max":20,"max_attempts_min":1,"max_body_bytes":4000000,"max_header_value_bytes":4096,"max_headers":64},"operations":{"capabilities":{"method":"GET","path":"/v1/localization/source/capabilities","principal_schema":"blun.cms-source-runtime-principal.v1","request_fields":[],"request_schema":null,"response_fields":["schema","capabilities"],"response_schema":"blun.cms-source-capabilities-response.v1","scope":"source-capabilities:read","success_status":200},"change":{"method":"POST","path":"/v1/localization/source/changes","principal_schema":"blun.cms-source-runtime-principal.v1","request_fields":["schema","change","max_attempts"],"request_schema":"blun.cms-source-change-enqueue-request.v1","response_fields":["schema","operation","request_id","event_id","payload_sha256","status","attempts","max_attempts","capabilities_sha256"],"response_schema":"blun.cms-source-change-enqueue-response.v2","scope":"source-change:write","success_status":202},"health":{"method":"GET","path":"/v1/localization/source/health","principal_schema":"blun.cms-source-runtime-principal.v1","request_fields":[],"request_schema":null,"response_fields":["schema","health","capabilities_sha256"],"response_schema":"blun.cms-source-health-response.v4","scope":"source-health:read","success_status":200},"readiness":{"method":"GET","path":"/v1/localization/source/readiness","principal_schema":"blun.cms-source-runtime-principal.v1","request_fields":[],"request_schema":null,"response_fields":["schema","readiness","capabilities_sha256"],"response_schema":"blun.cms-source-readiness-response.v2","scope":"source-readiness:read","success_status":200},"removal":{"method":"POST","path":"/v1/localization/source/removals","principal_schema":"blun.cms-source-runtime-principal.v1","request_fields":["schema","removal","max_attempts"],"request_schema":"blun.cms-source-removal-enqueue-request.v1","response_fields":["schema","operation","request_id","event_id","payload_sha256","status","attempts","max_attempts","capabilities_sha256"],"response_schema":"blun.cms-source-removal-enqueue-response.v2","scope":"source-removal:write","success_status":202},"status":{"method":"POST","path":"/v1/localization/source/status","principal_schema":"blun.cms-source-status-principal.v1","request_fields":["schema","event_id","site_id"],"request_schema":"blun.cms-source-status-request.v1","response_fields":["schema","status","capabilities_sha256"],"response_schema":"blun.cms-source-status-response.v4","scope":"source-status:read","success_status":200}},"schema":"blun.cms-source-runtime-capabilities.v1","sha256":"a2107b04b586ef004ac3338fea42f666add3a03cd7d2b8bc19628274e5d5eb7a"}"#;

    #[test]
    fn the_document_is_the_one_of_the_contract_to_the_byte() {
        let document = source_document();
        assert_eq!(canonical::print(&document), EXAMPLE);
        let known = "a2107b04b586ef004ac3338fea42f666add3a03cd7d2b8bc19628274e5d5eb7a";
        assert_eq!(digest(&document), Sha256::from_hex(known));
    }

    #[test]
    fn a_route_has_a_body_exactly_where_it_is_a_post() {
        for route in [&CAPABILITIES, &CHANGE, &HEALTH, &READINESS, &REMOVAL, &STATUS] {
            assert_eq!(route.method() == "POST", !route.request_fields.is_empty(), "{route:?}");
        }
    }
}
