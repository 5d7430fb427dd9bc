//! What a command's journal is: a folder, or a schema on a PostgreSQL server.
//!
//! Owns the choice, and where the server's password comes from. No password is taken from an argument: it
//! would stand in every list of processes.

use super::failure::Failed;
use crate::audit::Source;
use crate::{Engine, EngineBuilder};
use leasehold_journal::sled::SledMedium;
use leasehold_journal::{Durability, Head, restore};
use std::io::BufRead;
use std::path::Path;

/// Whether this names a server.
pub(super) fn is_server(journal: &Path) -> bool {
    let text = journal.to_string_lossy();
    text.starts_with("postgres://") || text.starts_with("postgresql://")
}

/// Refuses a server, for what works on the files of a folder.
pub(super) fn folder_only(journal: &Path) -> Result<(), Failed> {
    if is_server(journal) {
        return Err(Failed::Usage(
            "this works on a journal's folder; a server's tables are its own",
        ));
    }
    Ok(())
}

/// An engine on this journal.
pub(super) fn engine(journal: &Path) -> Result<EngineBuilder, Failed> {
    if !is_server(journal) {
        return Ok(Engine::builder(journal));
    }
    server::engine(journal)
}

/// This journal for reading.
pub(super) fn source(journal: &Path) -> Result<Source, Failed> {
    if !is_server(journal) {
        return Ok(Source::open(journal)?);
    }
    server::source(journal)
}

/// Puts an archive into this journal, which has to be new.
pub(super) fn restore(journal: &Path, archive: &mut dyn BufRead) -> Result<Head, Failed> {
    if !is_server(journal) {
        let medium = SledMedium::open(journal, true, Durability::PowerSafe)?;
        return Ok(restore::restore(&medium, archive)?);
    }
    server::restored(journal, archive)
}

#[cfg(not(feature = "postgres"))]
pub(super) const WITHOUT: Failed =
    Failed::Usage("this program was built without its feature `postgres`; build it with that");

#[cfg(feature = "postgres")]
pub(super) use server::place as server;

#[cfg(not(feature = "postgres"))]
mod server {
    use super::{BufRead, EngineBuilder, Failed, Head, Path, Source, WITHOUT};

    pub(super) fn engine(_: &Path) -> Result<EngineBuilder, Failed> {
        Err(WITHOUT)
    }

    pub(super) fn source(_: &Path) -> Result<Source, Failed> {
        Err(WITHOUT)
    }

    pub(super) fn restored(_: &Path, _: &mut dyn BufRead) -> Result<Head, Failed> {
        Err(WITHOUT)
    }
}

#[cfg(feature = "postgres")]
mod server {
    use super::{BufRead, Engine, EngineBuilder, Failed, Head, Path, Source};
    use crate::PostgresPlace;
    use leasehold_journal::JournalError;
    use leasehold_journal::postgres::PostgresMedium;
    use leasehold_journal::restore::restore;

    /// The file with the password; only its owner may read it.
    const PASSWORD_FILE: &str = "LEASEHOLD_POSTGRES_PASSWORD_FILE";
    /// The password itself, as PostgreSQL's own programs know it.
    const PASSWORD: &str = "PGPASSWORD";

    pub(super) fn engine(journal: &Path) -> Result<EngineBuilder, Failed> {
        Ok(Engine::on_server(place(journal)?))
    }

    pub(super) fn restored(journal: &Path, archive: &mut dyn BufRead) -> Result<Head, Failed> {
        let medium = PostgresMedium::open(&place(journal)?, true)?;
        Ok(restore(&medium, archive)?)
    }

    pub(super) fn source(journal: &Path) -> Result<Source, Failed> {
        Ok(Source::on_server(&place(journal)?)?)
    }

    pub(in crate::cli) fn place(journal: &Path) -> Result<PostgresPlace, Failed> {
        let text = journal.to_str().ok_or(JournalError::UrlInvalid)?;
        let place = PostgresPlace::parse(text)?;
        let place = match std::env::var("HOSTNAME") {
            Ok(name) => place.with_label(&name),
            Err(_) => place,
        };
        if let Some(file) = std::env::var_os(PASSWORD_FILE) {
            let password = std::fs::read_to_string(file)
                .map_err(|_| Failed::Usage("LEASEHOLD_POSTGRES_PASSWORD_FILE cannot be read"))?;
            return Ok(place.with_password(password.trim_end_matches(['\r', '\n'])));
        }
        Ok(match std::env::var(PASSWORD) {
            Ok(password) => place.with_password(&password),
            Err(_) => place,
        })
    }
}
