//! All flows of one journal, replayed side by side.

use super::delivery::Delivery;
use super::dispatch::Dispatch;
use super::lifecycle::Lifecycle;
use super::notification::Notify;
use super::processing::Processing;
use crate::codec;
use crate::contract::time::Timestamp;
use crate::record::identity::{flow_of, stream_of};
use crate::record::{Flow, FlowTag};
use crate::replay::{Replay, ReplayError, Replayed};
use leasehold_journal::StreamId;

/// Every record of a journal.
#[derive(Debug, Default)]
pub struct AllFlows {
    /// Flow `dispatch`.
    pub dispatch: Replay<Dispatch>,
    /// Flow `lifecycle`.
    pub lifecycle: Replay<Lifecycle>,
    /// Flow `notification`.
    pub notification: Replay<Notify>,
    /// Flow `processing`.
    pub processing: Replay<Processing>,
    /// Flow `delivery`.
    pub delivery: Replay<Delivery>,
}

impl AllFlows {
    /// The latest time anything happened; `None` for an empty journal. A clock that is behind it went
    /// back.
    #[must_use]
    pub fn latest(&self) -> Option<Timestamp> {
        let latest = [
            latest_of(&self.dispatch),
            latest_of(&self.lifecycle),
            latest_of(&self.notification),
            latest_of(&self.processing),
            latest_of(&self.delivery),
        ];
        latest.into_iter().flatten().max()
    }

    /// Applies one record; `body` is `None` when it cannot be read. Answers `None` for a stream of no
    /// flow.
    pub fn apply(
        &mut self,
        stream: StreamId,
        body: Option<&[u8]>,
    ) -> Option<Result<(), ReplayError>> {
        Some(match flow_of(stream)? {
            FlowTag::Dispatch => self.dispatch.apply(stream, body).map(drop),
            FlowTag::Lifecycle => self.lifecycle.apply(stream, body).map(drop),
            FlowTag::Notification => self.notification.apply(stream, body).map(drop),
            FlowTag::Processing => self.processing.apply(stream, body).map(drop),
            FlowTag::Delivery => self.delivery.apply(stream, body).map(drop),
        })
    }
}

/// The stream a registration belongs to; `None` for a body that is none.
#[must_use]
pub fn home(body: &[u8]) -> Option<StreamId> {
    match codec::flow_of(body)? {
        FlowTag::Dispatch => home_of::<Dispatch>(body),
        FlowTag::Lifecycle => home_of::<Lifecycle>(body),
        FlowTag::Notification => home_of::<Notify>(body),
        FlowTag::Processing => home_of::<Processing>(body),
        FlowTag::Delivery => home_of::<Delivery>(body),
    }
}

fn home_of<F: Flow>(body: &[u8]) -> Option<StreamId> {
    let event = codec::decode::<F>(body).ok()?;
    event.identity().map(|identity| stream_of(F::TAG, identity.as_str()))
}

fn latest_of<F: Flow>(flow: &Replay<F>) -> Option<Timestamp> {
    let times = flow.iter().filter_map(|(_, record)| match record {
        Replayed::Sound(state) => state.record().map(|record| record.updated_at),
        Replayed::Quarantined => None,
    });
    times.max()
}
