//! The four components: their tables, columns and versions.
//!
//! Owns what a store has to look like to be read at all.

use super::Cell;
use crate::contract::text::{Sha256, Token};
use crate::record::FlowTag;

/// A component of the reference, and the flow its records belong to here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// The change dispatcher (contract 4.1).
    Dispatch,
    /// The lifecycle monitor (4.2).
    Lifecycle,
    /// The terminal processing monitor (4.3).
    Processing,
    /// The source delivery outbox (4.4).
    Delivery,
}

/// What a store says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// Version of its schema.
    pub schema_version: u32,
    /// The pinned digest of all its records, where it has one.
    pub digest: Option<Sha256>,
}

/// Why a store is refused as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum StoreFault {
    /// Its schema is newer than what is known here.
    #[error("schema_newer")]
    Newer,
    /// Other columns, no version, or one that never was.
    #[error("schema_altered")]
    Altered,
    /// A version-1 store of the processing monitor with records: no digest says which receiver they are
    /// for.
    #[error("legacy_unbound")]
    LegacyUnbound,
    /// Its digest is none.
    #[error("capabilities_invalid")]
    Capabilities,
}

impl StoreFault {
    /// The stable code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            Self::Newer => "schema_newer",
            Self::Altered => "schema_altered",
            Self::LegacyUnbound => "legacy_unbound",
            Self::Capabilities => "capabilities_invalid",
        }
    }
}

/// A row of a meta table: its key, the version, and the digest where there is one.
pub type MetaRow = (i64, i64, Option<String>);

/// What is found of a component in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Columns of its table; none when it is not there.
    pub columns: Vec<String>,
    /// Columns of its meta table; none when that is not there.
    pub meta_columns: Vec<String>,
    /// Rows of the meta table; `None` for what is none.
    pub meta: Vec<Option<MetaRow>>,
    /// Whether the table has no rows.
    pub is_empty: bool,
}

impl Component {
    /// All of them, in the order a change passes them.
    pub const ALL: [Self; 4] = [Self::Dispatch, Self::Lifecycle, Self::Processing, Self::Delivery];

    /// Its flow.
    #[must_use]
    pub fn flow(self) -> FlowTag {
        match self {
            Self::Dispatch => FlowTag::Dispatch,
            Self::Lifecycle => FlowTag::Lifecycle,
            Self::Processing => FlowTag::Processing,
            Self::Delivery => FlowTag::Delivery,
        }
    }

    /// Its name: that of its flow.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.flow().name()
    }

    /// Its table.
    #[must_use]
    pub fn table(self) -> &'static str {
        match self {
            Self::Dispatch => "cms_source_change_outbox",
            Self::Lifecycle => "cms_source_lifecycle_monitor",
            Self::Processing => "cms_source_terminal_processing",
            Self::Delivery => "cms_source_delivery_outbox",
        }
    }

    /// Its meta table.
    #[must_use]
    pub fn meta_table(self) -> &'static str {
        match self {
            Self::Dispatch => "cms_source_change_outbox_meta",
            Self::Lifecycle => "cms_source_lifecycle_monitor_meta",
            Self::Processing => "cms_source_terminal_processing_meta",
            Self::Delivery => "cms_source_delivery_meta",
        }
    }

    /// The version of its schema that is read.
    #[must_use]
    pub fn schema_version(self) -> u32 {
        match self {
            Self::Processing => 2,
            Self::Dispatch | Self::Lifecycle | Self::Delivery => 1,
        }
    }

    /// The columns of its table, in their order.
    #[must_use]
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Dispatch => &DISPATCH,
            Self::Lifecycle => &LIFECYCLE,
            Self::Processing => &PROCESSING,
            Self::Delivery => &DELIVERY,
        }
    }

    /// The identity of a row's record, as far as it is one: nothing else of a damaged row is told.
    #[must_use]
    pub fn identity(self, cells: &[Cell]) -> Option<String> {
        let token = |place: usize| match cells.get(place) {
            Some(Cell::Text(text)) => Token::new(text).map(|token| token.to_string()),
            Some(Cell::Null | Cell::Integer(_) | Cell::Real(_) | Cell::Bytes) | None => None,
        };
        match self {
            Self::Dispatch | Self::Lifecycle | Self::Processing => token(0),
            Self::Delivery => Some(format!("{}/{}", token(0)?, token(1)?)),
        }
    }

    /// Reads what a store says of itself; `None` for one without this component, and for an empty store of
    /// before there was a digest, which has nothing to bring.
    ///
    /// # Errors
    /// [`StoreFault`]; nothing of the store may be read then.
    pub fn meta(self, found: &Found) -> Result<Option<Meta>, StoreFault> {
        if found.columns.is_empty() && found.meta_columns.is_empty() {
            return Ok(None);
        }
        let [Some((1, version, digest))] = &found.meta[..] else {
            return Err(StoreFault::Altered);
        };
        let (version, known) = (*version, self.schema_version());
        if version > known.into() {
            return Err(StoreFault::Newer);
        }
        let legacy = self == Self::Processing && version == 1;
        let bound = self == Self::Processing && !legacy;
        let members: &[&str] = if bound { &META_BOUND } else { &META };
        if found.columns != self.columns() || found.meta_columns != members {
            return Err(StoreFault::Altered);
        }
        if legacy {
            return if found.is_empty { Ok(None) } else { Err(StoreFault::LegacyUnbound) };
        }
        if version != i64::from(known) {
            return Err(StoreFault::Altered);
        }
        let digest = match digest {
            None if bound => return Err(StoreFault::Capabilities),
            None => None,
            Some(text) => Some(Sha256::from_hex(text).ok_or(StoreFault::Capabilities)?),
        };
        Ok(Some(Meta { schema_version: known, digest }))
    }
}

const META: [&str; 2] = ["singleton", "schema_version"];
const META_BOUND: [&str; 3] = ["singleton", "schema_version", "expected_capabilities_sha256"];

const DISPATCH: [&str; 18] = [
    "event_id",
    "payload_json",
    "payload_sha256",
    "status",
    "attempts",
    "max_attempts",
    "next_attempt_at",
    "lease_owner",
    "lease_token",
    "lease_expires_at",
    "last_error_code",
    "last_error_detail_hash",
    "remote_plan_id",
    "remote_job_count",
    "remote_status",
    "response_sha256",
    "created_at",
    "updated_at",
];

const LIFECYCLE: [&str; 28] = [
    "event_id",
    "site_id",
    "plan_id",
    "website_version",
    "source_sequence",
    "job_count",
    "change_sha256",
    "binding_sha256",
    "state",
    "poll_attempts",
    "consecutive_failures",
    "max_consecutive_failures",
    "next_poll_at",
    "lease_owner",
    "lease_token",
    "lease_expires_at",
    "last_error_code",
    "remote_status",
    "lifecycle_sha256",
    "lifecycle_json",
    "required_locales_json",
    "approved_locales_json",
    "blocked_locales_json",
    "queue_counts_json",
    "delivery_json",
    "tombstone_json",
    "created_at",
    "updated_at",
];

const PROCESSING: [&str; 24] = [
    "event_id",
    "notification_id",
    "site_id",
    "terminal_status",
    "notification_sha256",
    "status",
    "poll_attempts",
    "failures",
    "max_failures",
    "next_poll_at",
    "lease_owner",
    "lease_token",
    "lease_expires_at",
    "last_error_code",
    "receiver_status",
    "receiver_attempts",
    "receiver_max_attempts",
    "receiver_next_attempt_at",
    "receiver_lease_expires_at",
    "receiver_lease_expired",
    "receiver_error_code",
    "receiver_processed_at",
    "created_at",
    "updated_at",
];

const DELIVERY: [&str; 19] = [
    "operation",
    "request_id",
    "event_id",
    "site_id",
    "payload_json",
    "payload_sha256",
    "capabilities_sha256",
    "status",
    "attempts",
    "delivery_max_attempts",
    "source_max_attempts",
    "next_attempt_at",
    "lease_owner",
    "lease_token",
    "lease_expires_at",
    "last_error_code",
    "response_sha256",
    "created_at",
    "updated_at",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn found(component: Component, version: i64, digest: Option<&str>) -> Found {
        let bound = component == Component::Processing && version != 1;
        let members: &[&str] = if bound { &META_BOUND } else { &META };
        Found {
            columns: texts(component.columns()),
            meta_columns: texts(members),
            meta: vec![Some((1, version, digest.map(ToOwned::to_owned)))],
            is_empty: false,
        }
    }

    #[test]
    fn a_store_is_read_in_the_version_that_is_known_and_in_no_newer_one() {
        let digest = "c".repeat(64);
        for component in Component::ALL {
            let digest = (component == Component::Processing).then_some(digest.as_str());
            let known = component.schema_version();
            let meta = component.meta(&found(component, known.into(), digest));
            let digest = digest.and_then(Sha256::from_hex);
            assert_eq!(meta, Ok(Some(Meta { schema_version: known, digest })));
            let newer = found(component, i64::from(known) + 1, Some(&"c".repeat(64)));
            assert_eq!(component.meta(&newer), Err(StoreFault::Newer));
            let unknown = component.meta(&found(component, 0, None));
            assert_eq!(unknown, Err(StoreFault::Altered));
        }
    }

    #[test]
    fn a_store_without_the_component_has_nothing_of_it() {
        let none = Found { columns: vec![], meta_columns: vec![], meta: vec![], is_empty: true };
        assert_eq!(Component::Dispatch.meta(&none), Ok(None));
        let half = Found { meta_columns: texts(&META), ..none };
        assert_eq!(Component::Dispatch.meta(&half), Err(StoreFault::Altered));
    }

    #[test]
    fn a_store_with_other_columns_or_no_single_version_is_refused() {
        let good = found(Component::Delivery, 1, None);
        let mut more = good.clone();
        more.columns.push("more".to_owned());
        let twice = Found { meta: [good.meta.clone(), good.meta.clone()].concat(), ..good.clone() };
        let unread = Found { meta: vec![None], ..good.clone() };
        let none = Found { meta: vec![], ..good };
        for bad in [more, twice, unread, none] {
            assert_eq!(Component::Delivery.meta(&bad), Err(StoreFault::Altered));
        }
    }

    #[test]
    fn processing_records_without_a_digest_are_refused_and_an_empty_store_has_nothing() {
        let old = found(Component::Processing, 1, None);
        assert_eq!(Component::Processing.meta(&old), Err(StoreFault::LegacyUnbound));
        let empty = Found { is_empty: true, ..old };
        assert_eq!(Component::Processing.meta(&empty), Ok(None));
        for digest in [None, Some("no hash")] {
            let bad = found(Component::Processing, 2, digest);
            assert_eq!(Component::Processing.meta(&bad), Err(StoreFault::Capabilities));
        }
    }
}
