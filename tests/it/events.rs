//! Every kind of event of flow `dispatch`, one of each.

use crate::support::{accepted, change};
use leasehold_actors::contract::change::Change;
use leasehold_actors::contract::dispatch::DispatchResponse;
use leasehold_actors::contract::text::{ErrorCode, Sha256, WorkerToken};
use leasehold_actors::contract::time::{Ceiling, Timestamp};
use leasehold_actors::flows::dispatch::{Dispatch, DispatchBinding};
use leasehold_actors::record::event::{Ending, Loss};
use leasehold_actors::record::{
    Event, ImportedRecord, ImportedState, Intervention, LeaseToken, OperatorName, Reason,
};

pub(crate) fn intervention() -> Intervention {
    let by = OperatorName::new("maria").expect("a name");
    Intervention { by, why: Reason::new("it was mended").expect("a reason") }
}

/// The same change, brought here from another program's store after its first attempt failed.
fn imported() -> Event<Dispatch> {
    let at = |seconds| Timestamp::new(seconds).expect("a time");
    let change = Change::parse(change("event-1").as_bytes()).expect("a change");
    let record = ImportedRecord {
        binding: DispatchBinding::of(&change, Ceiling::new(5).expect("in range")),
        created_at: at(100.0),
        updated_at: at(102.0),
        next_at: at(107.0),
        attempts: 1,
        failures: 0,
        progress: (),
        state: ImportedState::RetryWait(ErrorCode::known("network")),
    };
    Event::Imported {
        at: at(300.0),
        schema_version: 1,
        row_sha256: Sha256::of(b"row"),
        record: Box::new(record),
        payload: change.payload,
    }
}

/// Every kind of event, for trying on every kind of state.
pub(crate) fn every_event() -> Vec<Event<Dispatch>> {
    let at = |seconds| Timestamp::new(seconds).expect("a time");
    let change = Change::parse(change("event-1").as_bytes()).expect("a change");
    let binding = DispatchBinding::of(&change, Ceiling::new(5).expect("in range"));
    let id = change.event_id.clone();
    let code = ErrorCode::known("network");
    let outcome =
        DispatchResponse::parse(accepted("event-1", 2).as_bytes(), &id).expect("an answer");
    vec![
        Event::Registered { at: at(100.0), binding, payload: change.payload, settled: None },
        Event::Claimed {
            at: at(101.0),
            attempt: 1,
            owner: WorkerToken::new("worker-1").expect("a worker"),
            token_sha256: LeaseToken::new("token".into()).sha256(),
            expires_at: at(161.0),
        },
        Event::Completed { at: at(102.0), next_at: at(102.0), outcome },
        Event::Watched { at: at(102.0), next_at: at(132.0), progress: () },
        Event::Unchanged { at: at(102.0), next_at: at(132.0), note: () },
        Event::Retried { at: at(102.0), next_at: at(107.0), failures: 0, code: code.clone() },
        Event::Failed {
            at: at(102.0),
            next_at: at(102.0),
            failures: 0,
            code: code.clone(),
            progress: None,
        },
        Event::LeaseLost {
            at: at(161.0),
            next_at: at(161.0),
            failures: 0,
            code,
            loss: Loss::Expired,
            ending: Ending::Retry,
        },
        Event::Requeued { at: at(200.0), intervention: intervention() },
        Event::Dismissed { at: at(200.0), intervention: intervention() },
        Event::Repinned {
            at: at(200.0),
            digest: Sha256::of(b"digest"),
            intervention: intervention(),
        },
        Event::Released { at: at(102.0), next_at: at(100.0), attempts: 0 },
        Event::RequeuedLater { at: at(200.0), next_at: at(260.5), intervention: intervention() },
        imported(),
    ]
}
