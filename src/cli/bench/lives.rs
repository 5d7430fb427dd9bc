//! The work that is measured: changes that are enqueued, leased and settled, side by side.

use crate::cli::failure::Failed;
use crate::clock::Stopwatch;
use crate::error::Error;
use crate::handle::{Handle, LEASE_SECONDS};
use leasehold_actors::flows::dispatch::Dispatch;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinSet;

/// Attempts a record may have.
const ATTEMPTS_MAX: i64 = 5;
/// Changes in one call of `enqueue_many`.
const MANY: usize = 10_000;

/// Numbers that workers take one by one.
#[derive(Debug, Clone)]
struct Numbers {
    next: Arc<AtomicU64>,
    end: u64,
}

impl Numbers {
    fn of(range: Range<u64>) -> Self {
        Self { next: Arc::new(AtomicU64::new(range.start)), end: range.end }
    }

    fn take(&self) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (number < self.end).then_some(number)
    }
}

/// Runs so many workers until all have ended.
async fn side_by_side<T>(width: u64, worker: impl Fn() -> T) -> Result<(), Failed>
where
    T: Future<Output = Result<(), Error>> + Send + 'static,
{
    let mut workers = JoinSet::new();
    for _ in 0..width {
        workers.spawn(worker());
    }
    while let Some(done) = workers.join_next().await {
        done.map_err(|_| Failed::Runtime)??;
    }
    Ok(())
}

/// Enqueues the changes of these numbers, so many side by side.
pub(super) async fn enqueue(
    flow: &Handle<Dispatch>,
    numbers: Range<u64>,
    width: u64,
) -> Result<(), Failed> {
    let numbers = Numbers::of(numbers);
    side_by_side(width, || {
        let (flow, numbers) = (flow.clone(), numbers.clone());
        async move {
            while let Some(number) = numbers.take() {
                flow.enqueue(change(number), ATTEMPTS_MAX).await?;
            }
            Ok(())
        }
    })
    .await
}

/// Enqueues the changes of these numbers from one caller.
pub(super) async fn enqueue_many(
    flow: &Handle<Dispatch>,
    numbers: Range<u64>,
) -> Result<(), Failed> {
    for from in numbers.clone().step_by(MANY) {
        let some = from..(from + MANY as u64).min(numbers.end);
        for enqueued in flow.enqueue_many(some.map(change), ATTEMPTS_MAX).await {
            enqueued?;
        }
    }
    Ok(())
}

/// Leases and settles so many of the oldest that wait, so many side by side.
pub(super) async fn settle(flow: &Handle<Dispatch>, count: u64, width: u64) -> Result<(), Failed> {
    let numbers = Numbers::of(0..count);
    side_by_side(width, || {
        let (flow, numbers) = (flow.clone(), numbers.clone());
        async move {
            while numbers.take().is_some() {
                settle_one(&flow).await?;
            }
            Ok(())
        }
    })
    .await
}

/// Lives of these numbers: each enqueues one change, leases the oldest that waits, and settles it. Answers
/// the seconds of each.
pub(super) async fn lives(
    flow: &Handle<Dispatch>,
    numbers: Range<u64>,
    width: u64,
) -> Result<Vec<f64>, Failed> {
    let each = Arc::new(Mutex::new(Vec::with_capacity((numbers.end - numbers.start) as usize)));
    let numbers = Numbers::of(numbers);
    side_by_side(width, || {
        let (flow, numbers, each) = (flow.clone(), numbers.clone(), Arc::clone(&each));
        async move {
            let mut seconds = Vec::new();
            while let Some(number) = numbers.take() {
                let watch = Stopwatch::start();
                flow.enqueue(change(number), ATTEMPTS_MAX).await?;
                settle_one(&flow).await?;
                seconds.push(watch.seconds());
            }
            each.lock().unwrap_or_else(PoisonError::into_inner).extend(seconds);
            Ok(())
        }
    })
    .await?;
    Ok(std::mem::take(&mut *each.lock().unwrap_or_else(PoisonError::into_inner)))
}

async fn settle_one(flow: &Handle<Dispatch>) -> Result<(), Error> {
    if let Some(claim) = flow.claim("bench", LEASE_SECONDS).await? {
        flow.complete(&claim, answer(claim.request().event_id.as_str())).await?;
    }
    Ok(())
}

/// A change of the size of the contract's example: 521 bytes. Each is of a source of its own, so that none
/// is overtaken by another.
fn change(number: u64) -> String {
    format!(
        "{{\"event_id\":\"evt-{number:010}\",\"localization\":{{\"content_type\":\"marketing\",\
         \"glossary_version\":\"glossary-4\",\"model_id\":\"writer\",\"model_version\":\"2031-03\",\
         \"policy_version\":\"policy-2\",\"provider_id\":\"inhouse\",\"software_version\":\"1.4.0\",\
         \"source_id\":\"block-{number:07}\",\"source_locale\":\"de-AT\",\"source_revision\":\"rev 12\",\
         \"source_text\":\"Frischer Kaffee für 3 €.\\nJeden Tag „neu“.\",\
         \"target_locales\":[\"fi-FI\",\"mt-MT\"]}},\"schema\":\"blun.cms-content-change.v2\",\
         \"site_id\":\"shop-north\",\"source_sequence\":{},\"website_version\":\"web-2031.4\"}}",
        number + 1
    )
}

/// An answer that takes this change.
pub(super) fn answer(event_id: &str) -> String {
    format!(
        "{{\"event_id\":\"{event_id}\",\"inserted_jobs\":2,\"job_count\":2,\"plan_id\":\"plan-6f1c\",\
         \"schema\":\"blun.website-localization-api.v2\",\"status\":\"enqueued\"}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasehold_actors::contract::change::Change;

    #[test]
    fn the_measured_change_is_a_valid_one_of_the_examples_size() {
        let change = Change::parse(change(7).as_bytes()).expect("a change");
        assert!((515..=530).contains(&change.payload.as_bytes().len()));
    }

    #[test]
    fn every_number_of_a_range_is_taken_once_and_then_none() {
        let numbers = Numbers::of(3..5);
        let other = numbers.clone();
        assert_eq!((numbers.take(), other.take()), (Some(3), Some(4)));
        assert_eq!((numbers.take(), other.take()), (None, None));
    }
}
