//! Damage, and what the library says to it.
//!
//! Shared by `examples/damage.rs`, which damages by the thousand, and by the integration tests, which
//! do a little of the same. A damage that is told of is no loss; one that is accepted in silence is,
//! and so is a panic that leaves the library.
//!
//! | module | owns |
//! | --- | --- |
//! | [`lives`] | documents through all five flows, as something to damage |
//! | [`bits`] | every bit of an archive |
//! | [`folder`] | a journal's folder, and the judgement on one that was damaged |
//! | [`damages`] | the damages of a folder, and what came of many of them |

pub(crate) mod bits;
pub(crate) mod damages;
pub(crate) mod folder;
pub(crate) mod lives;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The library's answer; `None` when it was a panic.
fn caught<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// Does the work in as many parts as there are processors; each is told its number and how many there
/// are.
fn in_parts<T: Send>(work: impl Fn(usize, usize) -> T + Sync) -> Vec<T> {
    let parts = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let work = &work;
        let parts: Vec<_> = (0..parts).map(|part| scope.spawn(move || work(part, parts))).collect();
        parts
            .into_iter()
            .map(|part| part.join().expect("the library's panics are caught"))
            .collect()
    })
}
