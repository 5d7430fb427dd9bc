//! What an operator can do about a record, as commands to be typed.
//!
//! Owns their words and their quoting. Must not know whether anybody types them.

use super::{Final, Next};
use crate::contract::text::Sha256;
use crate::control::Scope;
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
pub struct Place(Way);

/// How commands get there.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    /// Each opens the journal itself.
    Journal { reads: String, writes: String },
    /// An engine has the journal open: it is asked.
    Door { program: String, origin: String },
}

impl Place {
    /// A journal's folder.
    #[must_use]
    pub fn folder(path: &str) -> Self {
        Self(Way::Journal { reads: quoted(path), writes: quoted(path) })
    }

    /// An archive: it can be read, and what changes a record has to name the journal itself.
    #[must_use]
    pub fn archive(path: &str) -> Self {
        Self(Way::Journal { reads: quoted(path), writes: "JOURNAL".to_owned() })
    }

    /// A running engine that is asked over HTTP. `program` is the command up to the address, as a shell
    /// takes it; `origin` the address without a path.
    #[must_use]
    pub fn door(program: &str, origin: &str) -> Self {
        Self(Way::Door { program: program.to_owned(), origin: origin.to_owned() })
    }

    /// Lets a paused scope go on.
    pub(super) fn resume(&self, scope: &Scope) -> Action {
        let command = match &self.0 {
            Way::Journal { writes, .. } => {
                let (option, name) = match scope {
                    Scope::Flow(flow) => ("flow", flow.name()),
                    Scope::Site(site) => ("site", site.as_str()),
                    Scope::Destination(side) => ("destination", side.name()),
                };
                format!("leasehold resume {writes} --{option} {} {SIGNED}", quoted(name))
            }
            Way::Door { program, origin } => {
                let body = format!("{{\"scope\":\"{scope}\",{SIGNED_BODY}}}");
                format!("{program} -d '{body}' {}", quoted(&format!("{origin}/v1/resume")))
            }
        };
        Action { command, does: "lets it go on, unless something else it belongs to is paused" }
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
/// The same in a request.
const SIGNED_BODY: &str = "\"by\":\"NAME\",\"why\":\"REASON\"";

/// The commands about one record.
pub(super) struct Commands<'a> {
    pub(super) flow: FlowTag,
    pub(super) id: &'a str,
    pub(super) place: &'a Place,
}

impl Commands<'_> {
    /// An operator's command on this record.
    fn touch(&self, verb: &str, more: &str, does: &'static str) -> Action {
        let (flow, id) = (self.flow.name(), quoted(self.id));
        let command = match &self.place.0 {
            Way::Journal { writes, .. } => {
                format!("leasehold {verb} {writes} --flow {flow} --id {id}{more} {SIGNED}")
            }
            // The engine knows the states and the digest that the options would name.
            Way::Door { program, origin } => {
                let address = quoted(&format!("{origin}/v1/{flow}/{}/{verb}", self.id));
                format!("{program} -d '{{{SIGNED_BODY}}}' {address}")
            }
        };
        Action { command, does }
    }

    /// None where an engine is asked: it runs already.
    fn runs(&self, does: &'static str) -> Vec<Action> {
        let via = if self.flow == FlowTag::Delivery { " --via source" } else { "" };
        match &self.place.0 {
            Way::Journal { writes, .. } => {
                let command = format!("leasehold run --journal {writes} --config FILE{via}");
                vec![Action { command, does }]
            }
            Way::Door { .. } => Vec::new(),
        }
    }

    pub(super) fn run(&self) -> Vec<Action> {
        self.runs("goes on with what is there; nothing to do while an engine of yours runs")
    }

    pub(super) fn run_if_gone(&self) -> Vec<Action> {
        self.runs("ends the lease at once if the engine that gave it is gone, and goes on")
    }

    pub(super) fn explain(&self, flow: FlowTag, id: &str) -> Action {
        let name = flow.name();
        let command = match &self.place.0 {
            Way::Journal { reads, .. } => {
                format!("leasehold explain {reads} {name} {}", quoted(id))
            }
            Way::Door { program, origin } => {
                format!("{program} {}", quoted(&format!("{origin}/v1/{name}/{id}/explain")))
            }
        };
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
                self.runs("registers it with the next flow, where that one is configured")
            }
            None => Vec::new(),
        }
    }

    /// `pinned` is the digest of now where the record is registered under another one.
    pub(super) fn for_failed(&self, because: Final, pinned: Option<Option<Sha256>>) -> Vec<Action> {
        let again = match because {
            Final::CeilingReached | Final::NotRetryable | Final::OtherSideFailed => {
                "tries it again from its first attempt on, under its identity"
            }
            Final::LeasesLost => {
                "tries it again from its first attempt on, once it is known what ended those processes"
            }
        };
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
        let (to, unless) = (format!(" --digest {digest}"), format!(" --held-unless {digest}"));
        let repin = self.touch("repin", &to, "moves it to that digest: it goes on");
        let dismiss = self.touch("dismiss", &unless, "lets it be");
        match (&self.place.0, pinned) {
            // An engine moves it to the digest it is configured with, and to no other.
            (Way::Door { .. }, None) => vec![dismiss],
            (Way::Door { .. }, Some(_)) | (Way::Journal { .. }, _) => vec![repin, dismiss],
        }
    }
}

/// A digest; one that is not known is for the reader to fill in.
fn typed(digest: Option<Sha256>) -> String {
    digest.map_or_else(|| "HEX".to_owned(), |digest| digest.to_string())
}

/// What can be done about a record that does not replay.
pub(super) fn for_damage(place: &Place) -> Vec<Action> {
    match &place.0 {
        Way::Journal { reads, writes } => vec![
            Action {
                command: format!("leasehold audit {reads}"),
                does: "says what does not hold, record by record",
            },
            // An archive has no files to be looked at.
            Action {
                command: format!("leasehold doctor {writes}"),
                does: "says what is wrong with the files",
            },
        ],
        Way::Door { .. } => vec![Action {
            command: "leasehold doctor JOURNAL".to_owned(),
            does: "says what is wrong with the files, once the engine is stopped",
        }],
    }
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
        let failed = commands.for_failed(Final::CeilingReached, None);
        let resume = place.resume(&Scope::Flow(FlowTag::Delivery));
        let writes = failed.into_iter().chain(commands.run()).chain([resume]);
        for Action { command, .. } in writes {
            assert!(command.contains(" JOURNAL") && !command.contains("a b"), "{command}");
        }
    }

    #[test]
    fn every_kind_of_scope_is_resumed_as_the_command_line_names_it() {
        let place = Place::folder("j");
        for (scope, named) in [
            ("flow/dispatch", "--flow dispatch"),
            ("site/site-2", "--site site-2"),
            ("destination/cms", "--destination cms"),
        ] {
            let scope = Scope::new(scope).expect("a scope");
            let command = place.resume(&scope).command;
            assert_eq!(command, format!("leasehold resume j {named} --by NAME --why REASON"));
        }
    }

    #[test]
    fn a_running_engine_is_asked_and_never_told_to_run() {
        let place = Place::door("curl -s", "http://[::1]:8790");
        let commands = Commands { flow: FlowTag::Delivery, id: "change/e", place: &place };
        let body = "{\"by\":\"NAME\",\"why\":\"REASON\"}";
        let asked = |verb: &str| {
            format!("curl -s -d '{body}' 'http://[::1]:8790/v1/delivery/change/e/{verb}'")
        };
        let typed = |actions: Vec<Action>| -> Vec<String> {
            actions.into_iter().map(|action| action.command).collect()
        };
        let failed = typed(commands.for_failed(Final::LeasesLost, Some(None)));
        assert_eq!(failed, ["requeue", "repin", "dismiss"].map(asked));
        let digest = Sha256::of(b"pinned");
        assert_eq!(typed(commands.for_held(Some(digest))), ["repin", "dismiss"].map(asked));
        assert_eq!(typed(commands.for_held(None)), [asked("dismiss")]);
        assert_eq!(typed(vec![commands.requeue_dismissed()]), [asked("requeue")]);
        assert_eq!((commands.run(), commands.run_if_gone()), (Vec::new(), Vec::new()));
        let explain = commands.explain(FlowTag::Dispatch, "e").command;
        assert_eq!(explain, "curl -s 'http://[::1]:8790/v1/dispatch/e/explain'");
        let resume = place.resume(&Scope::Flow(FlowTag::Delivery)).command;
        let body = "{\"scope\":\"flow/delivery\",\"by\":\"NAME\",\"why\":\"REASON\"}";
        assert_eq!(resume, format!("curl -s -d '{body}' 'http://[::1]:8790/v1/resume'"));
    }
}
