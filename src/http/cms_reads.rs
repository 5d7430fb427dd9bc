//! The CMS client's other operations (contract 3.2): lifecycle, status, capabilities, cancellation,
//! tombstone.
//!
//! Owns their requests and what an answer has to agree with. Must not know what an answer means.

use super::cms::{CmsClient, failure};
use crate::worker::CallFailure;
use leasehold_actors::contract::capabilities;
use leasehold_actors::contract::dispatch::SCHEMA;
use leasehold_actors::contract::json::{Object, Value};
use leasehold_actors::contract::lifecycle::{LifecycleResponse, REQUEST_SCHEMA};
use leasehold_actors::contract::payload::Payload;
use leasehold_actors::contract::removal::{Removal, RemovalKind};
use leasehold_actors::contract::text::{Sha256, Token};
use leasehold_actors::contract::time::Timestamp;

const STATUS_SCHEMA: &str = "blun.cms-localization-status-request.v2";
const CAPABILITIES_SCHEMA: &str = "blun.cms-localization-capabilities-request.v1";

/// Digests the CMS's own document has to have; a pin is given by trusted configuration and never
/// learned from the connection it protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CmsPins {
    /// Of the capability document.
    pub capabilities: Option<Sha256>,
    /// Of the commercial rendering registry it names.
    pub commercial_rendering_registry: Option<Sha256>,
}

impl CmsClient {
    /// A fresh, canonical read request.
    fn read_request(
        &self,
        schema: &str,
        of: Option<(&Token, &Token)>,
    ) -> Result<(Token, Payload), CallFailure> {
        let mut bytes = [0; 16];
        self.entropy.fill(&mut bytes);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let request_id = Token::new(&hex).ok_or_else(|| failure("request_id_invalid", false))?;
        let now = Timestamp::new(self.clock.now_seconds())
            .ok_or_else(|| failure("clock_invalid", false))?;
        let text = |value: &str| Value::String(value.to_owned());
        let mut members = vec![
            ("schema".to_owned(), text(schema)),
            ("request_id".to_owned(), text(request_id.as_str())),
            ("requested_at".to_owned(), Value::Float(now.seconds())),
        ];
        if let Some((event_id, site_id)) = of {
            members.push(("event_id".to_owned(), text(event_id.as_str())));
            members.push(("site_id".to_owned(), text(site_id.as_str())));
        }
        let object = Object::new(members).map_err(|_| failure("request_invalid", false))?;
        Ok((request_id, Payload::of(&Value::Object(object))))
    }

    /// Reads the lifecycle of one change: a freshly signed request each time.
    ///
    /// # Errors
    /// [`CallFailure::Marked`] with the codes of contract 3.2.
    pub async fn lifecycle(
        &self,
        event_id: &Token,
        site_id: &Token,
    ) -> Result<Vec<u8>, CallFailure> {
        let (request_id, request) = self.read_request(REQUEST_SCHEMA, Some((event_id, site_id)))?;
        let path = "/v2/localization/lifecycle";
        let (value, body) = self.post(path, request.as_bytes(), &[200]).await?;
        let good = LifecycleResponse::check(&value, Payload::of(&value)).is_some()
            && names(&value, "request_id", &request_id)
            && names(&value, "event_id", event_id)
            && names(&value, "site_id", site_id);
        if good { Ok(body) } else { Err(failure("response_binding", true)) }
    }

    /// Reads the status of one change: the CMS's own object, which has to name the change.
    ///
    /// # Errors
    /// As [`Self::lifecycle`].
    pub async fn status(&self, event_id: &Token, site_id: &Token) -> Result<Value, CallFailure> {
        let (_, request) = self.read_request(STATUS_SCHEMA, Some((event_id, site_id)))?;
        let path = "/v2/localization/status";
        let (value, _) = self.post(path, request.as_bytes(), &[200]).await?;
        if names(&value, "event_id", event_id) {
            Ok(value)
        } else {
            Err(failure("response_binding", true))
        }
    }

    /// Reads the CMS's capability document and compares it with the pins.
    ///
    /// # Errors
    /// As [`Self::lifecycle`]; `capabilities_pin_mismatch` and
    /// `commercial_rendering_registry_pin_mismatch`, not worth another try.
    pub async fn capabilities(&self, pins: CmsPins) -> Result<Value, CallFailure> {
        let (_, request) = self.read_request(CAPABILITIES_SCHEMA, None)?;
        let path = "/v2/localization/capabilities";
        let (value, _) = self.post(path, request.as_bytes(), &[200]).await?;
        let digest =
            capabilities::digest(&value).ok_or_else(|| failure("response_binding", true))?;
        if pins.capabilities.is_some_and(|pin| pin != digest) {
            return Err(failure("capabilities_pin_mismatch", false));
        }
        let registry = value
            .as_object()
            .and_then(|document| document.text("commercial_rendering_registry_sha256"))
            .and_then(Sha256::from_hex);
        match pins.commercial_rendering_registry {
            Some(pin) if Some(pin) != registry => {
                Err(failure("commercial_rendering_registry_pin_mismatch", false))
            }
            Some(_) | None => Ok(value),
        }
    }

    /// Submits a cancellation or a tombstone; the answer has to name it.
    ///
    /// # Errors
    /// As [`Self::lifecycle`]; `cancellation_invalid`, `tombstone_invalid` for a document that is none.
    pub async fn submit_removal(
        &self,
        kind: RemovalKind,
        removal: &[u8],
    ) -> Result<Value, CallFailure> {
        let (path, invalid) = match kind {
            RemovalKind::Cancellation => ("/v2/localization/cancellations", "cancellation_invalid"),
            RemovalKind::Tombstone => ("/v2/localization/tombstones", "tombstone_invalid"),
        };
        let removal = Removal::parse(removal)
            .ok()
            .filter(|removal| removal.kind == kind)
            .ok_or_else(|| failure(invalid, false))?;
        let (value, _) = self.post(path, removal.payload.as_bytes(), &[200, 202]).await?;
        let good = value.as_object().is_some_and(|answer| answer.text("schema") == Some(SCHEMA))
            && names(&value, "event_id", &removal.event_id)
            && names(&value, kind.identity_field(), &removal.request_id);
        if good { Ok(value) } else { Err(failure("response_binding", true)) }
    }
}

fn names(value: &Value, key: &str, token: &Token) -> bool {
    value.as_object().and_then(|object| object.text(key)) == Some(token.as_str())
}
