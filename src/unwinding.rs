//! A client's call that panics.
//!
//! Owns that a panic goes no further than the call it happened in, whether that is polled or dropped. Must
//! not know what a call that panicked means.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A future of somebody else's; its output is `None` when it panics.
pub(crate) struct Unwinding<F>(Option<Pin<Box<F>>>);

impl<F: Future> Unwinding<F> {
    pub(crate) fn new(future: F) -> Self {
        Self(Some(Box::pin(future)))
    }
}

impl<F: Future> Future for Unwinding<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.0 else { return Poll::Ready(None) };
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Ready(value)) => Poll::Ready(Some(value)),
            Ok(Poll::Pending) => Poll::Pending,
            Err(thrown) => {
                forget(thrown);
                Poll::Ready(None)
            }
        }
    }
}

impl<F> Drop for Unwinding<F> {
    fn drop(&mut self) {
        let future = self.0.take();
        if let Err(thrown) = catch_unwind(AssertUnwindSafe(|| drop(future))) {
            forget(thrown);
            tracing::warn!(code = "client_panicked", "a client panicked when its call was dropped");
        }
    }
}

/// What was thrown may throw again when it is dropped; a few bytes are the lesser evil.
fn forget(thrown: Box<dyn Any + Send>) {
    std::mem::forget(thrown);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Panics when it is dropped.
    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "a client's own fault");
        }
    }

    fn polled<T>(future: impl Future<Output = T>) -> Poll<Option<T>> {
        let mut unwinding = Unwinding::new(future);
        Pin::new(&mut unwinding).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_panic_is_none_and_anything_else_is_itself() {
        assert_eq!(polled(async { 7 }), Poll::Ready(Some(7)));
        assert_eq!(polled(std::future::pending::<u8>()), Poll::Pending);
        assert_eq!(polled::<u8>(async { panic!("a client's own fault") }), Poll::Ready(None));
    }

    #[test]
    fn what_panics_when_it_is_dropped_or_is_thrown_and_panics_then_goes_no_further() {
        let hangs = async {
            let _bomb = Bomb;
            std::future::pending::<u8>().await
        };
        assert_eq!(polled(hangs), Poll::Pending);
        assert_eq!(polled::<u8>(async { std::panic::panic_any(Bomb) }), Poll::Ready(None));
    }

    /// Panics when it is polled, and when it is dropped.
    struct Twice(Bomb);

    impl Future for Twice {
        type Output = u8;

        fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u8> {
            panic!("a client's own fault")
        }
    }

    #[test]
    fn a_call_may_panic_twice() {
        assert_eq!(polled(Twice(Bomb)), Poll::Ready(None));
    }
}
