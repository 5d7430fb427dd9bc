//! All flows of one journal, replayed side by side.

use super::delivery::Delivery;
use super::dispatch::Dispatch;
use super::lifecycle::Lifecycle;
use super::notification::Notify;
use super::processing::Processing;
use crate::record::FlowTag;
use crate::record::identity::flow_of;
use crate::replay::{Replay, ReplayError};
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
