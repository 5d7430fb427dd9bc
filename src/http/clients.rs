//! Which client serves which flow.

use super::cms::CmsClient;
use super::notification::NotificationAdapter;
use super::receiver::ReceiverClient;
use super::source::SourceClient;
use crate::worker::{CallFailure, Client};
use leasehold_actors::flows::delivery::{Delivery, DeliveryRequest};
use leasehold_actors::flows::lifecycle::{Lifecycle, LifecycleRequest};
use leasehold_actors::flows::notification::{NotificationRequest, Notify};
use leasehold_actors::flows::processing::{Processing, ProcessingRequest};

impl Client<Lifecycle> for CmsClient {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(self.timeout_seconds())
    }

    async fn call(&self, request: LifecycleRequest) -> Result<Vec<u8>, CallFailure> {
        self.lifecycle(&request.event_id, &request.site_id).await
    }
}

impl Client<Notify> for NotificationAdapter {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(Self::longest_call_seconds(self))
    }

    async fn call(&self, request: NotificationRequest) -> Result<Vec<u8>, CallFailure> {
        self.notify(&request.notification).await
    }
}

impl Client<Notify> for ReceiverClient {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(Self::longest_call_seconds(self))
    }

    async fn call(&self, request: NotificationRequest) -> Result<Vec<u8>, CallFailure> {
        self.notify(&request.notification).await
    }
}

impl Client<Processing> for ReceiverClient {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(Self::longest_call_seconds(self))
    }

    async fn call(&self, request: ProcessingRequest) -> Result<Vec<u8>, CallFailure> {
        self.status(&request.event_id, &request.site_id).await
    }
}

impl Client<Delivery> for SourceClient {
    fn longest_call_seconds(&self) -> Option<f64> {
        Some(Self::longest_call_seconds(self))
    }

    async fn call(&self, request: DeliveryRequest) -> Result<Vec<u8>, CallFailure> {
        let DeliveryRequest { operation, request_id, event_id, document, max_attempts } = request;
        self.submit(operation, &request_id, &event_id, &document, max_attempts).await
    }
}
