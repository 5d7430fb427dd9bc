//! Where a journal stands when it is opened: as its checkpoint says, or as a walk over everything finds.
//!
//! Owns what is asked of a medium for the one and for the other. Whether a checkpoint is believed is
//! [`crate::checkpoint`]'s decision. Must not know what records or notes say.

use crate::beside::beside;
use crate::chain::{Head, JournalId};
use crate::checkpoint::{Checkpoint, Found, Left, Unused};
use crate::error::JournalError;
use crate::index::StreamIndex;
use crate::log::{AnchorCheck, LogOptions};
use crate::medium::{Anchors, Medium};
use crate::walk::{self, Item, Visit, Walk};

/// A journal of so few frames is not worth a thread.
const BRIEF_FRAMES: u64 = 64;

/// Takes the note that was left at the end of an earlier life, and answers whether it can go on from it.
pub type Resume<'a> = dyn FnMut(&[u8]) -> bool + 'a;

/// Where a journal stands.
pub(crate) struct Standing {
    pub(crate) archived: u64,
    pub(crate) index: StreamIndex,
    pub(crate) head: Head,
}

/// Where the journal stands as its checkpoint says; `None` when there is none that may be believed. A
/// checkpoint is never an error: whatever is wrong with it, or with what it speaks of, the walk over
/// everything is to find.
pub(crate) fn resumed<M: Medium>(
    medium: &M,
    id: JournalId,
    anchors: &Anchors,
    resume: &mut Resume<'_>,
) -> Option<Standing> {
    let left = match medium.checkpoint() {
        Ok(Some(left)) => Ok(left),
        Ok(None) => return None,
        Err(_) => Err(Unused::Unreadable),
    };
    match left.and_then(|left| believed(medium, id, anchors, &left, resume)) {
        Ok(standing) => {
            tracing::debug!(code = "checkpoint_used", "the journal goes on from its checkpoint");
            Some(standing)
        }
        Err(reason) => {
            tracing::info!(
                code = "checkpoint_unused",
                %reason,
                "the checkpoint is not used; everything is verified"
            );
            None
        }
    }
}

fn believed<M: Medium>(
    medium: &M,
    id: JournalId,
    anchors: &Anchors,
    left: &Left,
    resume: &mut Resume<'_>,
) -> Result<Standing, Unused> {
    let checkpoint = Checkpoint::decode(&left.bytes)?;
    let base = medium.base().map_err(|_| Unused::Unreadable)?;
    // The last one of all: what lies behind the head would be written over by the next commit.
    let last = medium.frame_at_or_before(u64::MAX).map_err(|_| Unused::Unreadable)?;
    let last = last.as_ref().map(|(place, bytes)| (*place, bytes.as_slice()));
    checkpoint.check(&Found { journal: id, stamp: left.stamp, anchors, base, last })?;
    if !resume(checkpoint.note) {
        return Err(Unused::Note);
    }
    let Checkpoint { archived, index, head, .. } = checkpoint;
    Ok(Standing { archived, index, head })
}

/// The journal's id; an empty medium gets one, where it may.
pub(crate) fn identify<M: Medium>(
    medium: &M,
    options: LogOptions,
    anchors: &Anchors,
) -> Result<JournalId, JournalError> {
    match medium.journal_id()? {
        Some(id) => Ok(id),
        None if anchors.inner.is_some()
            || anchors.damaged > 0
            || medium.frame_at_or_after(0)?.is_some() =>
        {
            // Of a shared medium: it may just have been made.
            medium.journal_id()?.ok_or(JournalError::Corrupt { sequence: 0 })
        }
        None if options.create => {
            // An empty folder where a journal was is a loss, not a beginning.
            let known = anchors.outer.map_or(0, |anchor| anchor.head.sequence);
            if known > 0 {
                return Err(JournalError::BehindAnchor { sequence: 0, missing: known });
            }
            medium.remove_checkpoint()?;
            medium.initialise(options.new_id)?;
            // Of two who make a shared journal at once, one is first.
            medium.journal_id()?.ok_or(JournalError::Corrupt { sequence: 0 })
        }
        None => Err(JournalError::Missing),
    }
}

/// Walks over everything.
pub(crate) fn verified<M: Medium>(
    medium: &M,
    id: JournalId,
    anchors: &Anchors,
    visit: &mut Visit<'_>,
) -> Result<Standing, JournalError> {
    let mut check = AnchorCheck::new(id, anchors);
    let mut archived = 0;
    let mut take = |item| {
        match &item {
            Item::Base(base) => {
                archived = base.head.sequence;
                check.start(base.head);
            }
            Item::Frame(head) => check.pass(*head),
            Item::Carried { .. } | Item::Record { .. } => {}
        }
        visit(item)
    };
    let mut walk = Walk::new(id);
    walk::enter(medium, &mut walk, &mut take)?;
    if !walk::go_on(medium, &mut walk, BRIEF_FRAMES, &mut take)? {
        // Reading and verifying on one processor, whatever is done with it on another.
        let rest = |visit: &mut Visit<'_>| walk::go_on(medium, &mut walk, u64::MAX, visit);
        let (stopped, taken) = beside(rest, &mut take);
        taken?;
        stopped?;
    }
    let head = walk.head();
    check.finish(head)?;
    Ok(Standing { archived, index: walk.into_index(), head })
}
