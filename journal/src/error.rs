//! What can go wrong with a journal, as stable codes.
//!
//! Owns the one error type of this crate. No text from outside (paths, database messages,
//! record contents) enters it: a code, and numbers where they help.

use std::io;

/// Why a journal cannot be opened, read or written.
///
/// `Display` prints the code and its numbers, never a path or a message of another library.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// Another process, or another engine of this one, holds the journal (J1).
    #[error("journal_locked")]
    Locked,
    /// The journal ends before the anchor: records that were durable are gone. With sequence 0 all of
    /// them: an empty folder where a journal was.
    #[error("journal_behind_anchor: {missing} records missing after sequence {sequence}")]
    BehindAnchor {
        /// Last sequence number that is there.
        sequence: u64,
        /// How many the anchor knows beyond it.
        missing: u64,
    },
    /// The anchor knows another history than the one that is there, or another journal.
    #[error("journal_diverged: another history at sequence {sequence}")]
    Diverged {
        /// The anchor's sequence number.
        sequence: u64,
    },
    /// The anchor file is gone or unreadable although the journal has records.
    #[error("journal_anchor_missing")]
    AnchorMissing,
    /// Bytes that do not verify. Everything before `sequence` does.
    #[error("journal_corrupt: at sequence {sequence}")]
    Corrupt {
        /// First sequence number that cannot be believed; 0 when the database itself is damaged.
        sequence: u64,
    },
    /// An archive that the journal goes on from is not there.
    #[error("journal_archive_missing: from sequence {sequence}")]
    ArchiveMissing {
        /// First sequence number that is in no archive at hand.
        sequence: u64,
    },
    /// A file with a later part of a journal, without what came before: it is read with the archives
    /// before it only.
    #[error("journal_archive_part")]
    ArchivePart,
    /// Written by a newer version of this library; nothing was touched.
    #[error("schema_newer: version {version}")]
    Newer {
        /// The version found.
        version: u16,
    },
    /// There is no journal at this place.
    #[error("journal_missing")]
    Missing,
    /// The folder above the one that is to be made does not exist.
    #[error("journal_parent_missing")]
    ParentMissing,
    /// The place exists but is no journal (or a symbolic link, which is refused).
    #[error("journal_not_a_journal")]
    NotAJournal,
    /// Others may read or write the folder; it has to be 0700.
    #[error("journal_permissions")]
    Permissions,
    /// The folder cannot be written.
    #[error("storage_readonly")]
    ReadOnly,
    /// No space left.
    #[error("storage_full")]
    Full,
    /// Any other failure of the disk or the database.
    #[error("storage_failed")]
    Storage,
    /// What names the database is no URL of one, or says what it may not say.
    #[error("journal_url_invalid")]
    UrlInvalid,
    /// The place an archive is to be put into holds records already, or is another journal.
    #[error("journal_not_empty")]
    NotEmpty,
    /// A password in a URL, which too many can read.
    #[error("journal_url_password")]
    UrlPassword,
    /// The database server does not let this user in.
    #[error("storage_credentials")]
    Credentials,
    /// The database server does not answer. It may again: nothing has to be reopened.
    #[error("storage_unreachable")]
    Unreachable,
    /// A write failed earlier, so what is on disk is unknown; reopen to find out.
    #[error("journal_poisoned")]
    Poisoned,
    /// The database moved a value to a file it never syncs; the journal would not be safe.
    #[error("journal_blobs")]
    Blobs,
    /// A body over [`crate::chunk::BODY_BYTES_MAX`].
    #[error("record_too_large")]
    TooLarge,
    /// A value that cannot be encoded or decoded under the limits of [`crate::payload`].
    #[error("payload_invalid")]
    Payload,
}

impl JournalError {
    /// The stable code, without numbers.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Locked => "journal_locked",
            Self::BehindAnchor { .. } => "journal_behind_anchor",
            Self::Diverged { .. } => "journal_diverged",
            Self::AnchorMissing => "journal_anchor_missing",
            Self::Corrupt { .. } => "journal_corrupt",
            Self::ArchiveMissing { .. } => "journal_archive_missing",
            Self::ArchivePart => "journal_archive_part",
            Self::Newer { .. } => "schema_newer",
            Self::Missing => "journal_missing",
            Self::ParentMissing => "journal_parent_missing",
            Self::NotAJournal => "journal_not_a_journal",
            Self::Permissions => "journal_permissions",
            Self::ReadOnly => "storage_readonly",
            Self::Full => "storage_full",
            Self::Storage => "storage_failed",
            Self::UrlInvalid => "journal_url_invalid",
            Self::NotEmpty => "journal_not_empty",
            Self::UrlPassword => "journal_url_password",
            Self::Credentials => "storage_credentials",
            Self::Unreachable => "storage_unreachable",
            Self::Poisoned => "journal_poisoned",
            Self::Blobs => "journal_blobs",
            Self::TooLarge => "record_too_large",
            Self::Payload => "payload_invalid",
        }
    }

    /// Damage rather than a passing fault: waiting or reopening does not help.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::BehindAnchor { .. }
            | Self::Diverged { .. }
            | Self::AnchorMissing
            | Self::Corrupt { .. }
            | Self::Blobs => true,
            Self::Locked
            | Self::ArchiveMissing { .. }
            | Self::ArchivePart
            | Self::Newer { .. }
            | Self::Missing
            | Self::ParentMissing
            | Self::NotAJournal
            | Self::Permissions
            | Self::ReadOnly
            | Self::Full
            | Self::Storage
            | Self::UrlInvalid
            | Self::NotEmpty
            | Self::UrlPassword
            | Self::Credentials
            | Self::Unreachable
            | Self::Poisoned
            | Self::TooLarge
            | Self::Payload => false,
        }
    }
}

impl From<io::Error> for JournalError {
    /// Keeps the kind and drops the text, which may carry a path.
    fn from(error: io::Error) -> Self {
        Self::from(error.kind())
    }
}

impl From<io::ErrorKind> for JournalError {
    #[allow(clippy::wildcard_enum_match_arm)] // a foreign, non-exhaustive enum
    fn from(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full,
            io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Self::ReadOnly,
            io::ErrorKind::NotFound => Self::Missing,
            _ => Self::Storage,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_message_starts_with_its_code() {
        let all = [
            JournalError::Locked,
            JournalError::BehindAnchor { sequence: 4, missing: 2 },
            JournalError::Diverged { sequence: 4 },
            JournalError::AnchorMissing,
            JournalError::Corrupt { sequence: 9 },
            JournalError::ArchiveMissing { sequence: 7 },
            JournalError::ArchivePart,
            JournalError::Newer { version: 2 },
            JournalError::Missing,
            JournalError::ParentMissing,
            JournalError::NotAJournal,
            JournalError::Permissions,
            JournalError::ReadOnly,
            JournalError::Full,
            JournalError::Storage,
            JournalError::UrlInvalid,
            JournalError::NotEmpty,
            JournalError::UrlPassword,
            JournalError::Credentials,
            JournalError::Unreachable,
            JournalError::Poisoned,
            JournalError::Blobs,
            JournalError::TooLarge,
            JournalError::Payload,
        ];
        for error in all {
            assert!(error.to_string().starts_with(error.code()), "{error}");
        }
    }

    #[test]
    fn the_text_of_an_io_error_is_dropped() {
        let error = io::Error::new(io::ErrorKind::StorageFull, "/home/alice/secret");
        assert_eq!(JournalError::from(error), JournalError::Full);
        let error = io::Error::other("/home/alice/secret");
        assert_eq!(JournalError::from(error).to_string(), "storage_failed");
    }
}
