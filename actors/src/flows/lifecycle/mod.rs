//! Flow `lifecycle`: an accepted change is watched until the CMS says how it ended (contract 4.2).

mod answers;

pub use answers::{
    LifecycleAttempt, LifecycleClaim, LifecycleHealth, LifecycleRequest, LifecycleStatus,
};

use crate::contract::json::Value;
use crate::contract::lifecycle::{
    Course, Expected, LifecycleResponse, RemoteStatus, with_request_id,
};
use crate::contract::notification::binding_sha256;
use crate::contract::payload::Payload;
use crate::contract::text::{ErrorCode, Sha256, Token};
use crate::contract::time::Ceiling;
use crate::record::rules::{Arguments, Counted, Due, Late};
use crate::record::{Flow, FlowTag, Identity, Rules, State, Verdict};
use serde::{Deserialize, Serialize};

/// The flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifecycle;

/// What a registered change fixes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleBinding {
    /// The change's identity.
    pub event_id: Token,
    /// Its site.
    pub site_id: Token,
    /// The CMS's plan.
    pub plan_id: Token,
    /// The version of the website.
    pub website_version: Token,
    /// The change's place.
    pub source_sequence: u64,
    /// Jobs of the plan.
    pub job_count: u64,
    /// Hash of the change.
    pub change_sha256: Sha256,
    /// Failures in a row it may have.
    pub max_consecutive_failures: Ceiling,
}

impl LifecycleBinding {
    /// Hash of the binding object (contract 2.5).
    #[must_use]
    pub fn sha256(&self) -> Sha256 {
        binding_sha256(
            (&self.event_id, &self.site_id, &self.plan_id, &self.website_version),
            self.source_sequence,
            self.job_count,
            self.change_sha256,
            self.max_consecutive_failures.get(),
        )
    }

    pub(crate) fn expected(&self) -> Expected<'_> {
        Expected {
            event_id: &self.event_id,
            site_id: &self.site_id,
            plan_id: &self.plan_id,
            website_version: &self.website_version,
            source_sequence: self.source_sequence,
            job_count: self.job_count,
        }
    }
}

/// The CMS's last answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Where the change stood.
    pub status: RemoteStatus,
    /// The answer in its canonical form.
    pub answer: Payload,
}

/// How a change ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LifecycleOutcome {
    /// The terminal status.
    pub status: RemoteStatus,
    /// The last answer; none when the end was known without one.
    pub snapshot: Option<Snapshot>,
}

/// What a repeated answer still brings: which read it answers. Sixteen bytes in hex, as our own
/// client draws them, are kept as bytes: a poll that learns nothing new should cost little.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RequestNote {
    /// 32 lower-case hex digits.
    Hex([u8; 16]),
    /// Any other token.
    Text(Token),
}

impl RequestNote {
    fn of(request_id: &Token) -> Self {
        let padded = format!("{}{}", request_id.as_str(), "0".repeat(32));
        match Sha256::from_hex(&padded) {
            // With the zeros it is 64 digits, so it was 32.
            Some(hash) => {
                let mut bytes = [0; 16];
                bytes.copy_from_slice(&hash.as_bytes()[..16]);
                Self::Hex(bytes)
            }
            None => Self::Text(request_id.clone()),
        }
    }

    fn request_id(&self) -> Option<Token> {
        match self {
            Self::Hex(bytes) => {
                let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                Token::new(&digits.concat())
            }
            Self::Text(token) => Some(token.clone()),
        }
    }
}

/// The request id of an answer that was checked when it arrived.
fn request_id_of(answer: &Payload) -> Option<Token> {
    let value = Value::parse(answer.as_bytes()).ok()?;
    Token::new(value.as_object()?.text("request_id")?)
}

impl Flow for Lifecycle {
    const TAG: FlowTag = FlowTag::Lifecycle;
    const RULES: Rules = Rules {
        prefix: "lifecycle_monitor",
        counted: Counted::Failures,
        expiry_code: "lease_expired",
        losses_code: "lifecycle_monitor.lease_lost_repeatedly",
        expiry_due: Due::BackOff,
        expiry_final_due: Due::Now,
        complete_due: Due::Now,
        late: Late::Named,
        unmarked: "client_failure",
        not_a_lease: "lease_invalid",
        arguments: Arguments::LeaseFirst,
    };
    type Binding = LifecycleBinding;
    type Payload = ();
    type Progress = Option<Snapshot>;
    type Report = LifecycleResponse;
    type Outcome = LifecycleOutcome;
    /// Whether the change ended at the CMS in a failure.
    type Facet = bool;
    type Note = RequestNote;

    fn judge(
        _: &LifecycleBinding,
        _: &Option<Snapshot>,
        report: LifecycleResponse,
    ) -> Verdict<Self> {
        let LifecycleResponse { status, payload, .. } = report;
        let snapshot = Some(Snapshot { status, answer: payload });
        if status.is_terminal() {
            Verdict::Complete(LifecycleOutcome { status, snapshot })
        } else {
            Verdict::Watch(snapshot)
        }
    }

    fn identity(binding: &LifecycleBinding) -> Identity {
        Identity::new(binding.event_id.as_str())
    }

    fn site(binding: &LifecycleBinding) -> &str {
        binding.site_id.as_str()
    }

    fn ceiling(binding: &LifecycleBinding) -> Ceiling {
        binding.max_consecutive_failures
    }

    fn belongs(_: &LifecycleBinding, (): &()) -> bool {
        true
    }

    fn facet(state: &State<Self>) -> bool {
        matches!(state, State::Completed { outcome, .. } if outcome.status.course() == Course::Failed)
    }

    fn repeats(before: &Option<Snapshot>, now: &Option<Snapshot>) -> Option<RequestNote> {
        let (before, now) = (before.as_ref()?, now.as_ref()?);
        let request_id = request_id_of(&now.answer)?;
        let same = with_request_id(&before.answer, &request_id)? == now.answer;
        same.then(|| RequestNote::of(&request_id))
    }

    fn repeated(before: &Option<Snapshot>, note: &RequestNote) -> Option<Option<Snapshot>> {
        let before = before.as_ref()?;
        let answer = with_request_id(&before.answer, &note.request_id()?)?;
        Some(Some(Snapshot { status: before.status, answer }))
    }

    /// Once a newer change of the same source is there, reads of the older one are refused: that is
    /// its end (D6).
    fn ended_by(code: &ErrorCode) -> Option<LifecycleOutcome> {
        let superseded = code.as_str() == "cms.event.superseded";
        superseded.then_some(LifecycleOutcome { status: RemoteStatus::Superseded, snapshot: None })
    }
}
