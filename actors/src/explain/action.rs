//! What an operator can do about a record, as commands to be typed.
//!
//! Owns their words and their quoting. Must not know whether anybody types them.

use super::Next;
use crate::contract::text::Sha256;
use crate::record::FlowTag;
use serde::Serialize;

/// One thing that can be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Action {
    /// The command line. Words in capitals are for the reader to fill in.
    pub command: String,
    /// What it does.
    pub does: &'static str,
}

/// Where a journal is, as a command names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    reads: String,
    writes: String,
}

impl Place {
    /// A journal's folder.
    #[must_use]
    pub fn folder(path: &str) -> Self {
        Self { reads: quoted(path), writes: quoted(path) }
    }

    /// An archive: it can be read, and what changes a record has to name the journal itself.
    #[must_use]
    pub fn archive(path: &str) -> Self {
        Self { reads: quoted(path), writes: "JOURNAL".to_owned() }
    }
}

/// A word as a shell takes it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=@+,%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// Who asks and why, for the reader to fill in.
const SIGNED: &str = "--by NAME --why REASON";

/// The commands about one record.
pub(super) struct Commands<'a> {
    pub(super) flow: FlowTag,
    pub(super) id: &'a str,
    pub(super) place: &'a Place,
}

impl Commands<'_> {
    /// An operator's command on this record.
    fn touch(&self, verb: &str, more: &str, does: &'static str) -> Action {
        let (journal, flow, id) = (&self.place.writes, self.flow.name(), quoted(self.id));
        let command = format!("leasehold {verb} {journal} --flow {flow} --id {id}{more} {SIGNED}");
        Action { command, does }
    }

    fn runs(&self, does: &'static str) -> Action {
        let via = if self.flow == FlowTag::Delivery { " --via source" } else { "" };
        let journal = &self.place.writes;
        Action { command: format!("leasehold run --journal {journal} --config FILE{via}"), does }
    }

    pub(super) fn run(&self) -> Action {
        self.runs("goes on with what is there; nothing to do while an engine of yours runs")
    }

    pub(super) fn run_if_gone(&self) -> Action {
        self.runs("ends the lease at once if the engine that gave it is gone, and goes on")
    }

    pub(super) fn explain(&self, flow: FlowTag, id: &str) -> Action {
        let command =
            format!("leasehold explain {} {} {}", self.place.reads, flow.name(), quoted(id));
        Action { command, does: "says the same of that record" }
    }

    pub(super) fn with_config(&self) -> Action {
        let Action { command, .. } = self.explain(self.flow, self.id);
        let command = format!("{command} --config FILE");
        Action { command, does: "tells whether it is held under another digest (D9)" }
    }

    pub(super) fn after(&self, next: Option<&Next>) -> Vec<Action> {
        match next {
            Some(Next { flow, id, state: Some(_) }) => vec![self.explain(*flow, id)],
            Some(Next { state: None, .. }) => {
                vec![self.runs("registers it with the next flow, where that one is configured")]
            }
            None => Vec::new(),
        }
    }

    /// `pinned` is the digest of now where the record is registered under another one.
    pub(super) fn for_failed(&self, pinned: Option<Option<Sha256>>) -> Vec<Action> {
        let again = "tries it again from its first attempt on, under its identity";
        let mut actions = vec![self.touch("requeue", "", again)];
        if let Some(pinned) = pinned {
            let more = format!(" --digest {}", typed(pinned));
            let then = "is needed after a requeue: it is registered under another digest (D9)";
            actions.push(self.touch("repin", &more, then));
        }
        let let_be = "lets it be: health does not count it as trouble any more";
        actions.push(self.touch("dismiss", "", let_be));
        actions
    }

    pub(super) fn requeue_dismissed(&self) -> Action {
        let more = " --state dismissed";
        self.touch("requeue", more, "takes that back: it is tried again from its first attempt on")
    }

    /// `pinned` is the digest of now; without one it is for the reader to fill in.
    pub(super) fn for_held(&self, pinned: Option<Sha256>) -> Vec<Action> {
        let digest = typed(pinned);
        vec![
            self.touch(
                "repin",
                &format!(" --digest {digest}"),
                "moves it to that digest: it goes on",
            ),
            self.touch("dismiss", &format!(" --held-unless {digest}"), "lets it be"),
        ]
    }
}

/// A digest; one that is not known is for the reader to fill in.
fn typed(digest: Option<Sha256>) -> String {
    digest.map_or_else(|| "HEX".to_owned(), |digest| digest.to_string())
}

/// What can be done about a record that does not replay.
pub(super) fn for_damage(place: &Place) -> Vec<Action> {
    let command = |verb: &str, journal: &str| format!("leasehold {verb} {journal}");
    vec![
        Action {
            command: command("audit", &place.reads),
            does: "says what does not hold, record by record",
        },
        // An archive has no files to be looked at.
        Action {
            command: command("doctor", &place.writes),
            does: "says what is wrong with the files",
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_quoted_where_a_shell_would_take_it_apart() {
        for (word, typed) in [
            ("demo-journal", "demo-journal"),
            ("change/hut:1", "change/hut:1"),
            ("my journal", "'my journal'"),
            ("it's", "'it'\\''s'"),
            ("$HOME;ls", "'$HOME;ls'"),
            ("", "''"),
        ] {
            assert_eq!(quoted(word), typed);
        }
    }

    #[test]
    fn what_changes_a_record_never_names_an_archive() {
        let place = Place::archive("a b.leasehold");
        let commands = Commands { flow: FlowTag::Delivery, id: "change/e", place: &place };
        let reads = commands.explain(FlowTag::Delivery, "change/e").command;
        assert_eq!(reads, "leasehold explain 'a b.leasehold' delivery change/e");
        let writes = commands.for_failed(None).into_iter().chain([commands.run()]);
        for Action { command, .. } in writes {
            assert!(command.contains(" JOURNAL") && !command.contains("a b"), "{command}");
        }
    }
}
