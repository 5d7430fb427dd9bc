//! Why a record stands where it stands: what it waits for, by which rule, and what changes that.
//!
//! Owns the reading of a state in words. Pure. Decides nothing: whatever it says of the future is asked of
//! the rules that will decide it. Must not know a calendar, a terminal or a page.
//!
//! | module | owns |
//! | --- | --- |
//! | [`explanation`] | what is said of a record |
//! | [`sides`] | what differs between flows, and what other records and pauses have to do with it |
//! | [`rule`] | the rules, with the contract's or the deviation's id |
//! | [`action`] | what an operator can type |
//! | [`words`] | what it waits for, as a sentence |

pub mod action;
pub mod explanation;
pub mod rule;
pub mod sides;
pub mod words;

pub use action::{Action, Place};
pub use explanation::{Brought, Changes, Explanation, Final, Lost, Used, WaitsFor};
pub use rule::Rule;
pub use sides::{Explains, Next, Situation, explain_record, situation};

use crate::contract::text::{ErrorCode, Sha256};
use crate::contract::time::Timestamp;
use crate::control::PausedScope;
use crate::record::policy::Delays;
use crate::record::rules::Counted;
use crate::record::{
    Command, DismissedFrom, Event, Identity, Lease, Policy, Record, State, StateKind, Wait, decide,
    event,
};
use action::Commands;
use std::num::NonZeroU32;

/// What is known of the digests pinned now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pinned {
    /// Nothing: no configuration was given.
    Unknown,
    /// The configuration pins this one for the flow, or none: then whatever waits is held (D9).
    Configured(Option<Sha256>),
}

/// What is known of how many leases a record may lose in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LossesMax {
    /// Nothing: no configuration was given.
    #[default]
    Unknown,
    /// The configuration says so many, or that there is no limit.
    Configured(Option<NonZeroU32>),
}

impl LossesMax {
    fn known(self) -> Option<NonZeroU32> {
        match self {
            Self::Configured(max) => max,
            Self::Unknown => None,
        }
    }
}

/// What a record is looked at with.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The time it is judged by.
    pub now: Timestamp,
    /// The digest its flow pins.
    pub pinned: Pinned,
    /// How many leases it may lose in a row.
    pub losses_max: LossesMax,
    /// Where the journal is, for commands.
    pub place: &'a Place,
}

/// What follows from a state, before it is put together.
struct Reading {
    waits_for: WaitsFor,
    rule: Rule,
    changes: Changes,
    changes_at: Option<Timestamp>,
    actions: Vec<Action>,
}

/// Explains a record that replays; `None` for one that is not there.
#[must_use]
pub fn explain<F: Explains>(
    state: &State<F>,
    situation: Situation,
    view: &View<'_>,
) -> Option<Explanation> {
    let record = state.record()?;
    let id = F::identity(&record.binding);
    let commands = Commands { flow: F::TAG, id: id.as_str(), place: view.place };
    let Situation { waits_for, next, paused } = situation;
    let reading = match state {
        State::Vacant => return None,
        State::Ready { record, wait } => {
            let held = held::<F>(record, view, &commands);
            held.or_else(|| for_resume(&paused))
                .or_else(|| for_change::<F>(waits_for, &commands))
                .unwrap_or_else(|| ready::<F>(record, wait, view, &commands))
        }
        State::Leased { lease, .. } => leased(state, lease, view, &commands),
        State::Completed { record, outcome } => completed(record, outcome, next, &commands),
        State::Failed { code, .. } => failed(record, code, view, &commands),
        State::Dismissed { from, .. } => dismissed(from, &commands),
    };
    let Reading { waits_for, rule, changes, changes_at, mut actions } = reading;
    actions.extend(paused.iter().map(|paused| view.place.resume(&paused.scope)));
    let open = matches!(state, State::Ready { .. } | State::Leased { .. });
    let pins = F::digest(&record.binding).is_some();
    let digest_unknown = open && pins && view.pinned == Pinned::Unknown;
    if digest_unknown {
        actions.push(commands.with_config());
    }
    let losses_max = view.losses_max.known().filter(|_| open).map(NonZeroU32::get);
    Some(Explanation {
        flow: F::TAG.name(),
        id: Some(id.to_string()),
        state: state.kind()?.name(F::COMPLETED),
        waits_for,
        rule,
        since: Some(record.updated_at.seconds()),
        changes,
        changes_at: changes_at.map(Timestamp::seconds),
        used: Some(used(record)),
        lost_leases: (record.losses > 0).then_some(Lost { lost: record.losses, max: losses_max }),
        paused,
        digest_unknown,
        actions,
        imported: None,
    })
}

/// Explains a record that does not replay. `since` is when the last event that does happened.
#[must_use]
pub fn explain_quarantined<F: Explains>(
    id: Option<&str>,
    sequence: Option<u64>,
    code: &str,
    since: Option<Timestamp>,
    place: &Place,
) -> Explanation {
    Explanation {
        flow: F::TAG.name(),
        id: id.map(ToOwned::to_owned),
        state: StateKind::Quarantined.name(F::COMPLETED),
        waits_for: WaitsFor::Repair { sequence, code: code.to_owned() },
        rule: Rule::Quarantine,
        since: since.map(Timestamp::seconds),
        changes: Changes::Operator,
        changes_at: None,
        used: None,
        lost_leases: None,
        paused: Vec::new(),
        digest_unknown: false,
        actions: action::for_damage(place),
        imported: None,
    }
}

/// The pinned digest, where it is known and another one than the record's.
fn elsewhere<F: Explains>(record: &Record<F>, pinned: Pinned) -> Option<Option<Sha256>> {
    let registered = F::digest(&record.binding)?;
    match pinned {
        Pinned::Configured(pinned) if pinned != Some(registered) => Some(pinned),
        Pinned::Configured(_) | Pinned::Unknown => None,
    }
}

/// Held under another digest. That goes first: to resume what is paused would not let it go on.
fn held<F: Explains>(
    record: &Record<F>,
    view: &View<'_>,
    commands: &Commands<'_>,
) -> Option<Reading> {
    let registered = F::digest(&record.binding)?;
    let pinned = elsewhere(record, view.pinned)?;
    Some(Reading {
        waits_for: WaitsFor::Digest { registered, pinned },
        rule: Rule::OtherDigest,
        changes: Changes::Operator,
        changes_at: None,
        actions: commands.for_held(pinned),
    })
}

/// Of something that is paused. That goes before the change it may wait for, which is paused too as a
/// rule.
fn for_resume(paused: &[PausedScope]) -> Option<Reading> {
    (!paused.is_empty()).then_some(Reading {
        waits_for: WaitsFor::Pause,
        rule: Rule::Paused,
        changes: Changes::Operator,
        changes_at: None,
        actions: Vec::new(),
    })
}

fn for_change<F: Explains>(holder: Option<Identity>, commands: &Commands<'_>) -> Option<Reading> {
    let id = holder?.to_string();
    Some(Reading {
        actions: vec![commands.explain(F::TAG, &id)],
        waits_for: WaitsFor::Change { id },
        rule: Rule::RemovalWaits,
        changes: Changes::OtherSettles,
        changes_at: None,
    })
}

fn ready<F: Explains>(
    record: &Record<F>,
    wait: &Wait,
    view: &View<'_>,
    commands: &Commands<'_>,
) -> Reading {
    let (waits_for, rule) = match wait {
        Wait::Pending => (WaitsFor::FirstAttempt, Rule::Due),
        Wait::Watching => (WaitsFor::Poll { heard: F::heard(&record.progress) }, Rule::Poll),
        Wait::Retry(code) => {
            let lost = code.as_str() == F::RULES.expiry_code;
            let rule = if lost { Rule::LeaseLost } else { Rule::BackOff };
            (WaitsFor::BackOff { error_code: code.to_string() }, rule)
        }
    };
    let due = record.next_at <= view.now;
    Reading {
        waits_for,
        rule,
        changes: if due { Changes::NextClaim } else { Changes::AtItsTime },
        changes_at: Some(record.next_at),
        actions: commands.run(),
    }
}

fn leased<F: Explains>(
    state: &State<F>,
    lease: &Lease,
    view: &View<'_>,
    commands: &Commands<'_>,
) -> Reading {
    let expired = lease.expired(view.now);
    Reading {
        waits_for: WaitsFor::Lease {
            owner: lease.owner.as_str().to_owned(),
            expires_at: lease.expires_at.seconds(),
            expired,
            last: fails_when_lost(state, lease, view.losses_max),
        },
        rule: if expired { Rule::LeaseOver } else { Rule::Lease },
        changes: if expired { Changes::NextClaim } else { Changes::AtItsTime },
        changes_at: Some(lease.expires_at),
        actions: commands.run_if_gone(),
    }
}

/// Asks the one rule what the lease's end would be. That does not depend on any delay.
fn fails_when_lost<F: Explains>(state: &State<F>, lease: &Lease, losses_max: LossesMax) -> bool {
    let policy = Policy::new(Delays::default()).expect("the defaults are within their limits");
    let policy = policy.with_unclean_losses_max(losses_max.known());
    let events = decide(&policy, state, Command::Expire, lease.expires_at);
    events.is_ok_and(|events| {
        events
            .iter()
            .any(|one| matches!(one, Event::LeaseLost { ending: event::Ending::Final, .. }))
    })
}

fn completed<F: Explains>(
    record: &Record<F>,
    outcome: &F::Outcome,
    next: Option<Next>,
    commands: &Commands<'_>,
) -> Reading {
    Reading {
        rule: F::settled_by(record, outcome, next.is_some()),
        changes: Changes::Never,
        changes_at: None,
        actions: commands.after(next.as_ref()),
        waits_for: WaitsFor::Nothing { ended: F::ended(outcome), next },
    }
}

fn failed<F: Explains>(
    record: &Record<F>,
    code: &ErrorCode,
    view: &View<'_>,
    commands: &Commands<'_>,
) -> Reading {
    let because = final_cause::<F>(record, code);
    Reading {
        waits_for: WaitsFor::Operator { error_code: code.to_string(), because },
        rule: Rule::of_failure(because),
        changes: Changes::Operator,
        changes_at: None,
        actions: commands.for_failed(because, elsewhere(record, view.pinned)),
    }
}

fn dismissed(from: &DismissedFrom, commands: &Commands<'_>) -> Reading {
    let (error_code, held) = match from {
        DismissedFrom::Failed(code) => (Some(code.to_string()), false),
        DismissedFrom::Held(Wait::Retry(code)) => (Some(code.to_string()), true),
        DismissedFrom::Held(Wait::Pending | Wait::Watching) => (None, true),
    };
    Reading {
        waits_for: WaitsFor::LetBe { error_code, held },
        rule: Rule::LetBe,
        changes: Changes::Never,
        changes_at: None,
        actions: vec![commands.requeue_dismissed()],
    }
}

fn final_cause<F: Explains>(record: &Record<F>, code: &ErrorCode) -> Final {
    let Used { used, max, .. } = used(record);
    if F::gave_up_there(code) {
        Final::OtherSideFailed
    } else if code.as_str() == F::RULES.losses_code {
        Final::LeasesLost
    } else if used >= max {
        Final::CeilingReached
    } else {
        Final::NotRetryable
    }
}

fn used<F: Explains>(record: &Record<F>) -> Used {
    let max = F::ceiling(&record.binding).get();
    let counted = F::RULES.counted;
    let used = match counted {
        Counted::Leases => record.attempts,
        Counted::Failures => record.failures,
    };
    Used { counted, used, max }
}
