//! Why a command could not do its work, in words that help.

use crate::config::ConfigInvalid;
use crate::door::DoorInvalid;
use crate::error::Error;
#[cfg(feature = "import")]
use crate::import::SourceFault;
use crate::sandbox::SandboxInvalid;
use crate::top::DoorFault;
use leasehold_journal::JournalError;
use std::fmt;
use std::path::PathBuf;

/// A command that could not do its work.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Failed {
    /// The journal.
    Journal(JournalError),
    /// The engine.
    Engine(Error),
    /// The configuration.
    Config(ConfigInvalid),
    /// The sandbox.
    Sandbox(SandboxInvalid),
    /// The door.
    Door(DoorInvalid),
    /// A door of another process.
    Asked(DoorFault),
    /// An input file.
    Input(PathBuf),
    /// A store that is to be imported.
    #[cfg(feature = "import")]
    Source(PathBuf, SourceFault),
    /// An output.
    Output(&'static str),
    /// Work of the bench that did not go as it has to for its figures to mean anything.
    Unmeasured(&'static str),
    /// Arguments that do not go together.
    Usage(&'static str),
    /// The system gives no threads.
    Runtime,
    /// A record past the journal's end.
    SequenceMissing {
        /// The last record there is.
        end: u64,
    },
}

impl Failed {
    /// 2 for usage, 3 for what cannot be opened or read.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_)
            | Self::Door(
                DoorInvalid::NotLoopback | DoorInvalid::TokenMissing | DoorInvalid::TokenInvalid,
            )
            | Self::Config(ConfigInvalid::Syntax { .. } | ConfigInvalid::Value { .. }) => 2,
            Self::Journal(_)
            | Self::Engine(_)
            | Self::Config(ConfigInvalid::Unreadable)
            | Self::Sandbox(_)
            | Self::Door(DoorInvalid::Listen | DoorInvalid::SocketTaken)
            | Self::Asked(_)
            | Self::Input(_)
            | Self::Output(_)
            | Self::Unmeasured(_)
            | Self::Runtime
            | Self::SequenceMissing { .. } => 3,
            #[cfg(feature = "import")]
            Self::Source(..) => 3,
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal(error) | Self::Engine(Error::Journal(error)) => {
                write!(f, "{error}\n  {}", advice(error))
            }
            Self::Engine(error) => write!(f, "{error}"),
            Self::Config(error) => write!(f, "{error}"),
            Self::Sandbox(error) => write!(f, "{error}"),
            Self::Door(error) => write!(f, "{error}"),
            Self::Asked(fault) => write!(f, "{fault}"),
            #[cfg(feature = "import")]
            Self::Source(path, fault) => {
                write!(f, "{fault}: {}\n  {}", path.display(), source_advice(*fault))
            }
            // The caller's own argument, as it was typed.
            Self::Input(path) => write!(f, "input_unreadable: {} cannot be read", path.display()),
            Self::Output(what) => write!(f, "output_unwritable: {what}"),
            Self::Unmeasured(what) => write!(f, "bench_invalid: {what}"),
            Self::Usage(what) => write!(f, "usage: {what}"),
            Self::SequenceMissing { end } => {
                write!(f, "sequence_missing: the journal ends at record {end}")
            }
            Self::Runtime => write!(f, "runtime_unavailable: the system gives no threads"),
        }
    }
}

/// What an operator can do about it.
fn advice(error: &JournalError) -> &'static str {
    match error {
        JournalError::Locked => {
            "another engine has this journal open, or a reading command is just copying it: ask that one, or read an exported archive"
        }
        JournalError::BehindAnchor { .. } => {
            "records that were durable are gone (a lost tail, an older copy put back, an empty folder where a journal was); we wrote nothing, but the database may have written over what it lost: copy the folder before anything else, look with `leasehold doctor`, bring the newer files back or get out what there is with `leasehold salvage`. If that is what you want, remove the .anchor file beside the folder"
        }
        JournalError::Diverged { .. } => {
            "the anchor knows another history than these files hold; nothing was written: look with `leasehold audit`"
        }
        JournalError::AnchorMissing => {
            "the anchor file is gone, so a lost tail could not be noticed; nothing was written: bring it back"
        }
        JournalError::Corrupt { .. } => {
            "bytes do not verify: look with `leasehold doctor`, get out what there is with `leasehold salvage`, or bring a sound copy back"
        }
        JournalError::ArchiveMissing { .. } => {
            "an archive this journal goes on from is not in the folder: bring it there"
        }
        JournalError::ArchivePart => {
            "this is a later part of a journal: name the folder with the parts before it (--archives DIR)"
        }
        JournalError::Newer { .. } => {
            "a newer leasehold wrote this: use that one; nothing was written"
        }
        JournalError::Missing => "there is no journal at this place",
        JournalError::ParentMissing => "the folder above the journal does not exist: make it first",
        JournalError::NotAJournal => {
            "this is neither a journal's folder nor an archive; nothing was touched"
        }
        JournalError::Permissions => {
            "others may read this folder: make it 0700 (chmod -R go= PATH)"
        }
        JournalError::ReadOnly => {
            "the folder, a file in it, or the .anchor file beside it cannot be written"
        }
        JournalError::Full => "no space is left: free some and run the same command again",
        JournalError::Storage => {
            "the disk does not answer as it should; run the same command again"
        }
        JournalError::Poisoned => "an earlier write failed: run the same command again",
        JournalError::Blobs => {
            "the database moved a value to a file it never syncs: export what there is into a new journal"
        }
        JournalError::TooLarge | JournalError::Payload => "a record is over its limit",
        JournalError::UrlInvalid
        | JournalError::NotEmpty
        | JournalError::UrlPassword
        | JournalError::Credentials
        | JournalError::Unreachable
        | _ => server_advice(error),
    }
}

/// The same for a journal on a server.
#[allow(clippy::wildcard_enum_match_arm)] // the others have theirs above
fn server_advice(error: &JournalError) -> &'static str {
    match error {
        JournalError::UrlInvalid => {
            "a server is named postgres://[USER@]HOST[:PORT]/DATABASE, perhaps with ?schema=NAME and &sslrootcert=FILE, and nothing else"
        }
        JournalError::NotEmpty => {
            "there is a journal at this place already: name another folder or schema"
        }
        JournalError::UrlPassword => {
            "a password in an argument is read by everybody on this machine: put it in a file and name that in LEASEHOLD_POSTGRES_PASSWORD_FILE, or in PGPASSWORD"
        }
        JournalError::Credentials => {
            "the server does not let this user in: look at the user's name, its password and the server's pg_hba.conf"
        }
        JournalError::Unreachable => {
            "the server does not answer, or its certificate is not for this host: nothing is lost, run the same command again when it does"
        }
        _ => "look with `leasehold audit`",
    }
}

/// What can be done about a store that is refused.
#[cfg(feature = "import")]
fn source_advice(fault: SourceFault) -> &'static str {
    match fault {
        SourceFault::Unreadable => "the file is not there, or cannot be read",
        SourceFault::NotSqlite => "this is no SQLite database",
        SourceFault::Busy => {
            "it was written to without a pause while it was read: run the same command when less is going on"
        }
        SourceFault::CopyFailed => {
            "a copy is made for reading: free some space for temporary files"
        }
        SourceFault::Damaged => {
            "SQLite cannot read it; what was read until then is in the journal, and the same command goes on \
             from there once the database is mended"
        }
        SourceFault::Unknown => "no component of the reference has a table in it",
        SourceFault::Store { .. } => {
            "one of its components has a schema that is not known here; nothing was written"
        }
    }
}

impl From<JournalError> for Failed {
    fn from(error: JournalError) -> Self {
        Self::Journal(error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<ConfigInvalid> for Failed {
    fn from(error: ConfigInvalid) -> Self {
        Self::Config(error)
    }
}

impl From<SandboxInvalid> for Failed {
    fn from(error: SandboxInvalid) -> Self {
        Self::Sandbox(error)
    }
}

impl From<DoorInvalid> for Failed {
    fn from(error: DoorInvalid) -> Self {
        Self::Door(error)
    }
}
