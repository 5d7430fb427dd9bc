//! All flows of one journal, replayed side by side.

use super::delivery::Delivery;
use super::dispatch::Dispatch;
use super::lifecycle::Lifecycle;
use super::notification::Notify;
use super::processing::Processing;
use crate::carried::{Origin, image_of};
use crate::codec;
use crate::contract::time::Timestamp;
use crate::control::{self, Controls, is_control};
use crate::record::identity::{flow_of, stream_of};
use crate::record::{Flow, FlowTag};
use crate::replay::{Replay, ReplayError, Replayed};
use leasehold_journal::{JournalError, StreamId};

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
    /// What was ever paused.
    pub controls: Controls,
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
            self.controls.latest(),
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
        if is_control(stream) {
            return Some(self.controls.apply(stream, body).map(drop));
        }
        Some(match flow_of(stream)? {
            FlowTag::Dispatch => self.dispatch.apply(stream, body).map(drop),
            FlowTag::Lifecycle => self.lifecycle.apply(stream, body).map(drop),
            FlowTag::Notification => self.notification.apply(stream, body).map(drop),
            FlowTag::Processing => self.processing.apply(stream, body).map(drop),
            FlowTag::Delivery => self.delivery.apply(stream, body).map(drop),
        })
    }

    /// The later of a time and the last time of one record.
    #[must_use]
    pub fn latest_after(&self, stream: StreamId, at: Option<Timestamp>) -> Option<Timestamp> {
        if is_control(stream) {
            return at.max(self.controls.last(stream));
        }
        let Some(flow) = flow_of(stream) else { return at };
        let of_record = match flow {
            FlowTag::Dispatch => last_of(&self.dispatch, stream),
            FlowTag::Lifecycle => last_of(&self.lifecycle, stream),
            FlowTag::Notification => last_of(&self.notification, stream),
            FlowTag::Processing => last_of(&self.processing, stream),
            FlowTag::Delivery => last_of(&self.delivery, stream),
        };
        at.max(of_record)
    }

    /// Takes what a record's archived events came to; `None` for a stream of no flow.
    pub fn carry(
        &mut self,
        stream: StreamId,
        image: Option<&[u8]>,
    ) -> Option<Result<(), ReplayError>> {
        if is_control(stream) {
            return Some(self.controls.carry(stream, image));
        }
        Some(match flow_of(stream)? {
            FlowTag::Dispatch => self.dispatch.carry(stream, image),
            FlowTag::Lifecycle => self.lifecycle.carry(stream, image),
            FlowTag::Notification => self.notification.carry(stream, image),
            FlowTag::Processing => self.processing.carry(stream, image),
            FlowTag::Delivery => self.delivery.carry(stream, image),
        })
    }

    /// The image of a record, to be kept when its events are archived.
    ///
    /// # Errors
    /// As [`image_of`]; [`JournalError::Corrupt`] at 0 for a stream of no flow.
    pub fn image(
        &self,
        stream: StreamId,
        origin: &mut dyn FnMut() -> Result<Origin, JournalError>,
    ) -> Result<Vec<u8>, JournalError> {
        if is_control(stream) {
            return self.controls.image(stream);
        }
        match flow_of(stream) {
            Some(FlowTag::Dispatch) => image_of(self.dispatch.get(stream), origin),
            Some(FlowTag::Lifecycle) => image_of(self.lifecycle.get(stream), origin),
            Some(FlowTag::Notification) => image_of(self.notification.get(stream), origin),
            Some(FlowTag::Processing) => image_of(self.processing.get(stream), origin),
            Some(FlowTag::Delivery) => image_of(self.delivery.get(stream), origin),
            None => Err(JournalError::Corrupt { sequence: 0 }),
        }
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

fn last_of<F: Flow>(flow: &Replay<F>, stream: StreamId) -> Option<Timestamp> {
    last_time(flow.get(stream)?)
}

fn last_time<F: Flow>(record: &Replayed<F>) -> Option<Timestamp> {
    Some(record.state()?.record()?.updated_at)
}

fn latest_of<F: Flow>(flow: &Replay<F>) -> Option<Timestamp> {
    flow.iter().filter_map(|(_, record)| last_time(record)).max()
}

/// When the event of a body happened; `None` for a body that is no event of its stream's flow.
#[must_use]
pub fn time_of(stream: StreamId, body: &[u8]) -> Option<Timestamp> {
    if is_control(stream) {
        return control::form::decode(body).ok().map(|event| event.at());
    }
    match flow_of(stream)? {
        FlowTag::Dispatch => at::<Dispatch>(body),
        FlowTag::Lifecycle => at::<Lifecycle>(body),
        FlowTag::Notification => at::<Notify>(body),
        FlowTag::Processing => at::<Processing>(body),
        FlowTag::Delivery => at::<Delivery>(body),
    }
}

fn at<F: Flow>(body: &[u8]) -> Option<Timestamp> {
    codec::decode::<F>(body).ok().map(|event| event.at())
}
