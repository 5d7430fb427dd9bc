//! `leasehold salvage`: every verifiable record out of a damaged journal.

use super::doctor::{records, standing};
use super::failure::Failed;
use super::{Ended, print};
use clap::Args;
use leasehold_journal::anchor::Reading;
use leasehold_journal::folder::Layout;
use leasehold_journal::salvage::{Salvage, Standing};
use leasehold_journal::scan::ArchiveEnd;
use leasehold_journal::sled::SledMedium;
use leasehold_journal::{Durability, Head, JournalError};
use serde_json::{Value, json};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Get every verifiable record out of a damaged journal, whether its database opens or not.
///
/// Searches the raw bytes of every file of the folder, or of an archive that is cut or damaged. What
/// follows from the first record without a gap becomes an archive, OUT, which every reading command
/// takes; --into-journal makes a new journal of it, with the same numbers, hashes and id. A gap is
/// never bridged: verified records behind one go to OUT.rest. Nothing is changed in what is read.
/// Records that were moved to archives count as missing here: they are where they were moved to.
/// Exits with 1 when something is missing, as far as the anchors and the numbers tell.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  leasehold salvage demo-journal demo-salvaged.leasehold --into-journal demo-salvaged"
)]
pub(super) struct SalvageArguments {
    /// A journal's folder, or an archive
    path: PathBuf,
    /// The archive to write; neither it nor OUT.rest may exist yet
    out: PathBuf,
    /// Make a new journal of the same records in this folder, which must not exist yet
    #[arg(long, value_name = "DIR")]
    into_journal: Option<PathBuf>,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// What was written.
#[derive(Default)]
struct Written {
    archive: Option<Head>,
    rest_frames: Option<u64>,
    restored: Option<Head>,
    /// Whether a new journal was asked for and there was nothing to make it of.
    unrestored: bool,
}

pub(super) fn run(arguments: &SalvageArguments) -> Result<Ended, Failed> {
    let mut rest = arguments.out.clone().into_os_string();
    rest.push(".rest");
    let rest = PathBuf::from(rest);
    refuse_existing(arguments, &rest)?;
    let salvage = Salvage::open(&arguments.path)?;
    if salvage.is_empty_handed() {
        return Err(JournalError::Corrupt { sequence: 0 }.into());
    }
    let mut written = Written::default();
    if salvage.has_prefix() {
        written.archive = Some(write(&arguments.out, |out| salvage.write_archive(out))?);
    }
    if salvage.has_rest() {
        written.rest_frames = Some(write(&rest, |out| salvage.write_rest(out))?);
    }
    match &arguments.into_journal {
        Some(folder) if salvage.has_prefix() => written.restored = Some(restore(&salvage, folder)?),
        Some(_) => written.unrestored = true,
        None => {}
    }
    if arguments.json {
        print::json(&report(&salvage, &written))?;
    } else {
        text(&salvage, &written)?;
    }
    Ok(if salvage.is_complete() { Ended::Fine } else { Ended::Findings })
}

/// Refuses before anything is written, so that no command leaves half of what it was to make.
fn refuse_existing(arguments: &SalvageArguments, rest: &Path) -> Result<(), Failed> {
    let there = |path: &Path| std::fs::symlink_metadata(path).is_ok();
    if there(&arguments.out) || there(rest) {
        return Err(Failed::Output("the archive, or the file .rest beside it, exists already"));
    }
    if let Some(folder) = &arguments.into_journal
        && (there(folder) || there(&Layout::new(folder).outer_anchor()?))
    {
        return Err(Failed::Output(
            "the new journal, or an .anchor file beside it, exists already",
        ));
    }
    Ok(())
}

fn write<T>(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<T, JournalError>,
) -> Result<T, Failed> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600); // it holds every text that was ever delivered
    }
    let unwritten = |_| Failed::Output("the output cannot be written");
    let file = options.open(path).map_err(unwritten)?;
    let written = filled(file, fill);
    if written.is_err() {
        // Half a file must not be taken for one.
        std::fs::remove_file(path)
            .map_err(|_| Failed::Output("a half-written file could not be removed"))?;
    }
    written
}

fn filled<T>(
    file: File,
    fill: impl FnOnce(&mut dyn Write) -> Result<T, JournalError>,
) -> Result<T, Failed> {
    let mut out = BufWriter::new(file);
    let value = fill(&mut out)?;
    let unwritten = |_| Failed::Output("the output cannot be written");
    out.flush().map_err(unwritten)?;
    out.get_ref().sync_all().map_err(unwritten)?;
    Ok(value)
}

/// Makes a new journal; takes it away again when that fails.
fn restore(salvage: &Salvage, folder: &Path) -> Result<Head, Failed> {
    let restored = SledMedium::open(folder, true, Durability::PowerSafe)
        .and_then(|medium| salvage.restore(medium));
    if restored.is_err() {
        let unremoved = |_| Failed::Output("a half-made journal could not be removed");
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(unremoved)?;
        }
        let anchor = Layout::new(folder).outer_anchor()?;
        if anchor.exists() {
            std::fs::remove_file(anchor).map_err(unremoved)?;
        }
    }
    restored.map_err(Failed::from)
}

fn report(salvage: &Salvage, written: &Written) -> Value {
    let scan = salvage.scan();
    let missing = salvage.missing();
    let head = |head: Head| json!({ "sequence": head.sequence, "head": head.hash.to_string() });
    let anchor = |(standing, reading): (Standing, Option<Reading>)| {
        let newest = reading.and_then(|reading| reading.newest);
        json!({
            "standing": standing,
            "sequence": newest.map(|anchor| anchor.head.sequence),
            "head": newest.map(|anchor| anchor.head.hash.to_string()),
        })
    };
    let forks: Vec<Value> = salvage
        .forks()
        .iter()
        .map(
            |fork| json!({ "first": fork.first, "last": fork.last, "hash": fork.hash.to_string() }),
        )
        .collect();
    json!({
        "complete": salvage.is_complete(),
        "journal": salvage.journal().map(|id| id.to_string()),
        "bytes": scan.bytes(),
        "unreadable_bytes": scan.unreadable(),
        "frames": salvage.frames(),
        "records": salvage.prefix_records() + salvage.rest_records(),
        "archive": written.archive.map(head),
        "rest_records": salvage.rest_records(),
        "rest_frames": written.rest_frames.unwrap_or(0),
        "restored": written.restored.map(head),
        "missing": missing,
        "missing_records": missing.iter().map(|span| span.count()).sum::<u64>(),
        "bodies_missing": salvage.bodies_missing(),
        "streams_unfollowed_from": salvage.unfollowed_from(),
        "forks": forks,
        "streams_whole": salvage.streams_whole(),
        "streams_broken": salvage.streams_broken(),
        "anchor_inside": anchor(salvage.inner()),
        "anchor_beside": anchor(salvage.outer()),
        "end_reached": salvage.end_reached(),
    })
}

fn text(salvage: &Salvage, written: &Written) -> Result<(), Failed> {
    let scan = salvage.scan();
    let journal = salvage.journal().map_or_else(|| "unknown".to_owned(), |id| id.to_string());
    let all = salvage.prefix_records() + salvage.rest_records();
    print::line(&format!(
        "journal {journal}: {all} records in {} frames verified, in {} bytes",
        salvage.frames(),
        scan.bytes()
    ))?;
    losses(salvage)?;
    for (place, (stands, reading)) in [("inside", salvage.inner()), ("beside", salvage.outer())] {
        let newest = reading.and_then(|reading| reading.newest);
        let at = newest.map_or_else(String::new, |it| format!("at record {}, ", it.head.sequence));
        print::line(&format!("anchor {place}: {at}{}", standing(stands)))?;
    }
    let (whole, broken) = (salvage.streams_whole(), salvage.streams_broken());
    print::line(&format!("streams: {whole} whole, {broken} with records missing"))?;
    if let Some(head) = written.archive {
        print::line(&format!("archive: records 1 to {}, head {}", head.sequence, head.hash))?;
    }
    if let Some(frames) = written.rest_frames {
        print::line(&format!("beside it, .rest: {frames} verified frames behind a gap or aside"))?;
    }
    if let Some(head) = written.restored {
        print::line(&format!("new journal: head {} at record {}", head.hash, head.sequence))?;
    }
    if written.unrestored {
        print::line(
            "no new journal: the first records are gone, and no later one can stand alone",
        )?;
    }
    print::line(verdict(salvage))
}

/// Everything that is not as it was.
fn losses(salvage: &Salvage) -> Result<(), Failed> {
    if salvage.scan().unreadable() > 0 {
        let bytes = salvage.scan().unreadable();
        print::line(&format!("unreadable: the disk does not give {bytes} bytes"))?;
    }
    let missing = salvage.missing();
    if !missing.is_empty() {
        print::line(&format!("missing: {}", records(&missing)))?;
    }
    let bodies = salvage.bodies_missing();
    if !bodies.is_empty() {
        print::line(&format!("without their body: {}", records(&bodies)))?;
    }
    if let Some(at) = salvage.unfollowed_from() {
        print::line(&format!("the streams do not follow one another from record {at} on"))?;
    }
    for fork in salvage.forks() {
        let (first, last, hash) = (fork.first, fork.last, fork.hash);
        print::line(&format!("aside: records {first} to {last} of another history, {hash}"))?;
    }
    if salvage.scan().newer().is_some() {
        print::line("frames of a newer version of leasehold were met and not read")?;
    }
    match salvage.scan().end() {
        ArchiveEnd::Cut => {
            print::line("the archive's end is gone: how many records it had is not known")
        }
        ArchiveEnd::Head(_) if !salvage.end_reached() => {
            print::line("the head that the archive ends with is not reached")
        }
        ArchiveEnd::Head(_) | ArchiveEnd::NoArchive => Ok(()),
    }
}

fn verdict(salvage: &Salvage) -> &'static str {
    let known = [salvage.inner().0, salvage.outer().0].contains(&Standing::Reached)
        || matches!(salvage.scan().end(), ArchiveEnd::Head(_));
    match (salvage.is_complete(), known) {
        (true, true) => "nothing is missing",
        (true, false) => "nothing is known to be missing; no anchor tells where the journal ended",
        (false, _) => "not complete",
    }
}
