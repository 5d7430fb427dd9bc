//! Every bit of an archive, and a short run of the damages that `examples/damage.rs` does by the
//! thousand.

#[path = "../damage/mod.rs"]
pub(crate) mod damage;

use damage::bits::{self, Bits, Seen};
use damage::damages;
use damage::folder::{JOURNAL, Outcome, Sample};
use leasehold::audit::{Source, audit};
use std::sync::LazyLock;

static SAMPLE: LazyLock<Sample> = LazyLock::new(|| Sample::new(150));

#[test]
fn every_flipped_bit_of_an_archive_of_all_flows_is_told_of() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let archive = bits::archive(1);
    let whole = folder.path().join("whole");
    std::fs::write(&whole, &archive).expect("writable");
    let source = Source::open(&whole).expect("an archive");
    assert_eq!(bits::look(&source), Seen::Clean, "what is not damaged is not reported");
    assert_eq!(audit(&source, None).flows.len(), 5);
    let bytes = archive.len() as u64;
    let all = Bits { bytes, flips: bytes * 8, reported: bytes * 8, silent: 0, panicked: 0 };
    assert_eq!(bits::flip(&archive, 1, folder.path()), all);
}

#[test]
fn bits_of_an_archive_with_chunks_are_told_of_too() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let archive = bits::archive(65_536);
    let came = bits::flip(&archive, 997, folder.path());
    assert!(came.flips > 500, "{came:?}");
    assert_eq!((came.reported, came.silent, came.panicked), (came.flips, 0, 0), "{came:?}");
}

#[test]
fn two_hundred_damages_of_a_folder_take_nothing_away_in_silence() {
    let counts = damages::many(&SAMPLE, 200, 20_261_101);
    assert_eq!((counts.damages, counts.silent, counts.panicked), (200, 0, 0), "{counts:?}");
    assert_eq!(counts.kinds.len(), 6, "each kind was tried: {counts:?}");
    let refused: u64 = counts.refused.values().sum();
    let found: u64 = counts.found.values().sum();
    assert_eq!(counts.harmless + refused + found, 200);
    assert!(counts.harmless > 0 && refused > 20 && found > 0, "{counts:?}");
    assert!(counts.refused.contains_key("journal_behind_anchor"), "{counts:?}");
}

#[test]
fn a_folder_that_is_whole_is_harmless_and_what_nobody_can_notice_counts_as_silent() {
    assert!(SAMPLE.records() >= 150);
    assert_eq!(SAMPLE.after(|_| {}), Outcome::Harmless);
    assert_eq!(damages::unnoticeable(&SAMPLE), Outcome::Silent);
    // With no anchor at all, nobody could tell either: so that is refused.
    let without = SAMPLE.after(|place| {
        let journal = place.join(JOURNAL);
        std::fs::remove_file(journal.join("anchor")).expect("it was there");
        std::fs::remove_file(journal.with_extension("anchor")).expect("it was there");
    });
    assert_eq!(without, Outcome::Refused("journal_anchor_missing"));
}
