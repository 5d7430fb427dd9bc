//! `leasehold export`, `import` and `verify`: a journal as one portable file.

use super::failure::Failed;
use super::{Ended, audit, place, print, records};
use crate::audit::Source;
use clap::Args;
use leasehold_journal::Head;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Write as _};
use std::path::PathBuf;

/// Write a portable archive of a journal, verified on the way.
///
/// The archive holds every frame and every chunk; it is read by every reading command.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold export demo-journal demo.leasehold")]
pub(super) struct ExportArguments {
    /// A journal's folder, the URL of one on a server (postgres://…), or an exported archive
    path: PathBuf,
    /// The file to write; it must not exist yet
    out: PathBuf,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Put an archive into a new journal, on disk or on a server, as it is.
///
/// Every frame and every hash stays what it was: whoever kept a head proves it in the new place. So a
/// journal moves from a folder to a server, or back.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold import demo.leasehold --journal demo-journal-2")]
pub(super) struct ImportArguments {
    /// The archive, as `export` writes it
    archive: PathBuf,
    /// The new journal's folder, or postgres://[USER@]HOST/DATABASE[?schema=NAME]
    #[arg(long, value_name = "DIR|URL")]
    journal: PathBuf,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// Verify an archive, as `audit` does.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  leasehold verify demo.leasehold")]
pub(super) struct VerifyArguments {
    #[command(flatten)]
    audit: audit::AuditArguments,
}

pub(super) fn export(arguments: &ExportArguments) -> Result<Ended, Failed> {
    let source: Source = records::open(&arguments.path)?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600); // it holds every text that was ever delivered
    }
    #[allow(clippy::wildcard_enum_match_arm)] // a foreign, non-exhaustive enum
    let file = options.open(&arguments.out).map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => Failed::Output("the archive exists already"),
        _ => Failed::Output("the archive cannot be written"),
    })?;
    let mut out = BufWriter::new(file);
    let head = match source.export(&mut out) {
        Ok(head) => head,
        Err(error) => {
            // Half an archive must not be taken for one.
            drop(out);
            std::fs::remove_file(&arguments.out)
                .map_err(|_| Failed::Output("a half-written archive could not be removed"))?;
            return Err(error.into());
        }
    };
    let unwritten = |_| Failed::Output("the archive cannot be written");
    out.flush().map_err(unwritten)?;
    out.get_ref().sync_all().map_err(unwritten)?;
    told(head, arguments.json)
}

pub(super) fn import(arguments: &ImportArguments) -> Result<Ended, Failed> {
    let unreadable = |_| Failed::Input(arguments.archive.clone());
    let file = File::open(&arguments.archive).map_err(unreadable)?;
    let head = place::restore(&arguments.journal, &mut BufReader::new(file))?;
    told(head, arguments.json)
}

fn told(head: Head, as_json: bool) -> Result<Ended, Failed> {
    if as_json {
        let hash = head.hash.to_string();
        print::json(&serde_json::json!({ "sequence": head.sequence, "head": hash }))?;
    } else {
        print::line(&format!("head {} at record {}", head.hash, head.sequence))?;
    }
    Ok(Ended::Fine)
}

pub(super) fn verify(arguments: &VerifyArguments) -> Result<Ended, Failed> {
    audit::run(&arguments.audit)
}
