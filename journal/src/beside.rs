//! A walk on a thread of its own, beside whoever takes what it shows.
//!
//! Owns the way between the two: what is shown arrives in the same order, in parcels, and the walk is
//! never far ahead. Must not know what is done with it.

use crate::error::JournalError;
use crate::walk::{Item, Visit};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Items in one parcel.
const PARCEL: usize = 512;
/// Parcels under way at most.
const PARCELS: usize = 8;

/// Runs `walk` on a thread of its own and `take` on this one, over everything it shows; on this one both,
/// when the system gives no thread. Answers what the walk answered, and the error of `take`, if it had
/// one: the walk is told of it as of an error of its own and shows no more.
///
/// # Panics
/// Where `walk` does.
pub fn beside<R: Send>(
    walk: impl FnOnce(&mut Visit<'_>) -> R + Send,
    take: &mut Visit<'_>,
) -> (R, Result<(), JournalError>) {
    let mut waiting = Some(walk);
    let (out, parcels) = sync_channel(PARCELS);
    let walked = thread::scope(|scope| {
        let walking = thread::Builder::new().name("leasehold-walk".to_owned());
        let begun = walking.spawn_scoped(scope, || {
            let out = out;
            waiting.take().map(|walk| in_parcels(walk, &out))
        });
        let walking = begun.ok()?;
        let taken = parcels.iter().flatten().try_for_each(&mut *take);
        drop(parcels);
        let walked = walking.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        walked.map(|answer| (answer, taken))
    });
    match (walked, waiting) {
        (Some(walked), _) => walked,
        (None, Some(walk)) => on_this_thread(walk, take),
        (None, None) => unreachable!("a walk that was begun has an answer"),
    }
}

fn in_parcels<R>(walk: impl FnOnce(&mut Visit<'_>) -> R, out: &SyncSender<Vec<Item>>) -> R {
    let mut parcel = Vec::with_capacity(PARCEL);
    let answer = walk(&mut |item| {
        parcel.push(item);
        if parcel.len() < PARCEL { Ok(()) } else { send(out, &mut parcel) }
    });
    // Whoever takes has all of it, or refused some and wants no more.
    drop(out.send(parcel));
    answer
}

fn on_this_thread<R>(
    walk: impl FnOnce(&mut Visit<'_>) -> R,
    take: &mut Visit<'_>,
) -> (R, Result<(), JournalError>) {
    let mut taken = Ok(());
    let answer = walk(&mut |item| {
        taken = take(item);
        if taken.is_ok() { Ok(()) } else { Err(JournalError::Storage) }
    });
    (answer, taken)
}

fn send(out: &SyncSender<Vec<Item>>, parcel: &mut Vec<Item>) -> Result<(), JournalError> {
    let full = std::mem::replace(parcel, Vec::with_capacity(PARCEL));
    out.send(full).map_err(|_| JournalError::Storage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{Digest, Head};

    fn frame(sequence: u64) -> Item {
        Item::Frame(Head { sequence, hash: Digest([0; 32]) })
    }

    fn number(item: &Item) -> u64 {
        match item {
            Item::Frame(head) => head.sequence,
            Item::Base(_) | Item::Carried { .. } | Item::Record { .. } => 0,
        }
    }

    #[test]
    fn everything_arrives_in_its_order_and_the_answer_after_it() {
        for count in [0, 1, PARCEL as u64, 10 * PARCEL as u64 + 7] {
            let mut seen = Vec::new();
            let walk = |visit: &mut Visit<'_>| (1..=count).try_for_each(|it| visit(frame(it)));
            let walked = beside(walk, &mut |item| {
                seen.push(number(&item));
                Ok(())
            });
            assert_eq!(walked, (Ok(()), Ok(())));
            assert_eq!(seen, (1..=count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_refusal_ends_the_walk_and_is_answered() {
        let last = 100 * PARCEL as u64;
        let refusal = JournalError::Newer { version: 9 };
        let mut taken = 0;
        let walk = |visit: &mut Visit<'_>| (1..=last).try_for_each(|it| visit(frame(it)));
        let walked = beside(walk, &mut |_| {
            taken += 1;
            if taken < 3 { Ok(()) } else { Err(refusal.clone()) }
        });
        assert_eq!(walked, (Err(JournalError::Storage), Err(refusal)));
        assert_eq!(taken, 3);
    }

    #[test]
    fn without_a_thread_of_its_own_the_same_is_answered() {
        let refusal = JournalError::Newer { version: 9 };
        for (refused_at, taken) in [(3, Err(refusal.clone())), (9, Ok(()))] {
            let mut seen = Vec::new();
            let walk = |visit: &mut Visit<'_>| (1..=5).try_for_each(|it| visit(frame(it)));
            let walked = on_this_thread(walk, &mut |item| {
                seen.push(number(&item));
                if seen.len() < refused_at { Ok(()) } else { Err(refusal.clone()) }
            });
            let answer = taken.clone().map_err(|_| JournalError::Storage);
            assert_eq!(walked, (answer, taken));
            assert_eq!(seen.len(), refused_at.min(5));
        }
    }

    #[test]
    fn an_error_of_the_walk_comes_after_what_it_showed() {
        let mut taken = 0;
        let walk = |visit: &mut Visit<'_>| {
            visit(frame(1))?;
            Err::<(), _>(JournalError::Corrupt { sequence: 2 })
        };
        let walked = beside(walk, &mut |_| {
            taken += 1;
            Ok(())
        });
        assert_eq!(walked, (Err(JournalError::Corrupt { sequence: 2 }), Ok(())));
        assert_eq!(taken, 1);
    }
}
