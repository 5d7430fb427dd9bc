//! The work that is measured, the same for every peer, and the line that tells of it.
//!
//! Owns the arguments, the change, the folder and the errors. Must not know any peer.

use clap::Args;
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::fmt;
use std::path::{Path, PathBuf};

/// What stands for the event id in a template.
const MARK: &str = "evt-0000000000";

/// The change of `leasehold bench`: the size of the contract's example, 521 bytes.
const CHANGE: &str = "{\"event_id\":\"evt-0000000000\",\"localization\":{\"content_type\":\"marketing\",\
    \"glossary_version\":\"glossary-4\",\"model_id\":\"writer\",\"model_version\":\"2031-03\",\
    \"policy_version\":\"policy-2\",\"provider_id\":\"inhouse\",\"software_version\":\"1.4.0\",\
    \"source_id\":\"landing.intro\",\"source_locale\":\"de-AT\",\"source_revision\":\"rev 12\",\
    \"source_text\":\"Frischer Kaffee für 3 €.\\nJeden Tag „neu“.\",\
    \"target_locales\":[\"fi-FI\",\"mt-MT\"]},\"schema\":\"blun.cms-content-change.v2\",\
    \"site_id\":\"shop-north\",\"source_sequence\":1,\"website_version\":\"web-2031.4\"}";

/// How much of it.
#[derive(Debug, Clone, Args)]
pub(crate) struct WorkArguments {
    /// Lives to measure
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    pub(crate) records: u64,
    /// Records that wait, all due, before the first life
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) backlog: u64,
    /// Lives side by side
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub(crate) in_flight: u16,
    /// Where to put the temporary files; the current folder if not given
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) folder: PathBuf,
    /// A file whose first line is the change to deliver, in place of the one `leasehold bench` has
    #[arg(long, value_name = "FILE")]
    pub(crate) changes: Option<PathBuf>,
}

/// The arguments, checked, with a folder that is there.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) records: u64,
    pub(crate) backlog: u64,
    pub(crate) in_flight: u16,
    before: String,
    after: String,
    folder: Scratch,
}

impl Work {
    pub(crate) fn new(arguments: &WorkArguments) -> Result<Self, Failed> {
        let WorkArguments { records, backlog, in_flight, ref folder, ref changes } = *arguments;
        if records == 0 || in_flight == 0 || in_flight > 4096 {
            return Err(Failed::Usage("--records is at least 1, --in-flight 1 to 4096"));
        }
        let template = match changes {
            Some(file) => {
                marked(&std::fs::read_to_string(file).map_err(failed("read the changes"))?)?
            }
            None => CHANGE.to_owned(),
        };
        let (before, after) =
            template.split_once(MARK).ok_or(Failed::Usage("the change has no event_id"))?;
        let (before, after) = (before.to_owned(), after.to_owned());
        let folder = Scratch::within(folder)?;
        Ok(Self { records, backlog, in_flight, before, after, folder })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join(name)
    }

    pub(crate) fn event_id(number: u64) -> String {
        format!("evt-{number:010}")
    }

    /// Change number `number`.
    pub(crate) fn change(&self, number: u64) -> String {
        [self.before.as_str(), &Self::event_id(number), &self.after].concat()
    }

    /// The line of a peer that did this work.
    pub(crate) fn line(&self, peer: &str, durability: &str, measured: &Measured) -> Line {
        Line {
            peer: peer.to_owned(),
            lives_per_second: self.records as f64 / measured.seconds,
            p50_seconds: measured.p50_seconds,
            p99_seconds: measured.p99_seconds,
            records: self.records,
            backlog: self.backlog,
            in_flight: self.in_flight,
            durability: durability.to_owned(),
        }
    }
}

/// The first line of a file, printed compactly, its event id replaced by the mark.
fn marked(text: &str) -> Result<String, Failed> {
    let line = text.lines().next().unwrap_or_default();
    let mut change: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(line).map_err(failed("read the first change"))?;
    change.insert("event_id".to_owned(), MARK.into());
    serde_json::to_string(&change).map_err(failed("print the change"))
}

/// What took how long.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    pub(crate) p50_seconds: f64,
    pub(crate) p99_seconds: f64,
}

impl Measured {
    /// All of it took `seconds`; each life took as long as `lives` says.
    pub(crate) fn new(seconds: f64, mut lives: Vec<f64>) -> Self {
        lives.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (lives.len() as f64 * share) as usize;
            lives.get(place.min(lives.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
        };
        Self { seconds, p50_seconds: at(0.5), p99_seconds: at(0.99) }
    }
}

/// What is printed for one run of one peer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) peer: String,
    pub(crate) lives_per_second: f64,
    pub(crate) p50_seconds: f64,
    pub(crate) p99_seconds: f64,
    pub(crate) records: u64,
    pub(crate) backlog: u64,
    pub(crate) in_flight: u16,
    pub(crate) durability: String,
}

impl Line {
    pub(crate) fn print(&self) -> Result<(), Failed> {
        println!("{}", serde_json::to_string(self).map_err(failed("print a line"))?);
        Ok(())
    }
}

/// Why there is no figure. The change is a made-up one, so the libraries' own words may be shown.
#[derive(Debug)]
pub(crate) enum Failed {
    Usage(&'static str),
    /// A peer did something else than it was asked for; its figure would be worth nothing.
    Wrong(&'static str),
    Step(&'static str, Box<dyn Error + Send + Sync>),
}

/// For `map_err`: what could not be done.
pub(crate) fn failed<E: Into<Box<dyn Error + Send + Sync>>>(
    step: &'static str,
) -> impl FnOnce(E) -> Failed {
    move |cause| Failed::Step(step, cause.into())
}

impl fmt::Display for Failed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) | Self::Wrong(what) => to.write_str(what),
            Self::Step(step, cause) => write!(to, "cannot {step}: {cause}"),
        }
    }
}

impl Error for Failed {}

/// A folder of this process that is removed at the end.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn within(folder: &Path) -> Result<Self, Failed> {
        let path = folder.join(format!("leasehold-peers-{}", std::process::id()));
        std::fs::create_dir_all(folder).map_err(failed("make the folder"))?;
        std::fs::create_dir(&path).map_err(failed("make the folder"))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("{} is left behind: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_has_its_number_and_the_size_of_the_example() {
        let folder = std::env::temp_dir();
        let arguments =
            WorkArguments { records: 1, backlog: 0, in_flight: 1, folder, changes: None };
        let change = Work::new(&arguments).expect("work").change(7);
        assert!((515..=530).contains(&change.len()), "{}", change.len());
        let value: serde_json::Value = serde_json::from_str(&change).expect("JSON");
        assert_eq!(value["event_id"], "evt-0000000007");
    }

    #[test]
    fn the_first_line_of_a_file_becomes_the_change() {
        let text = "{\"site_id\": \"a\", \"event_id\": \"hut-1\"}\n{\"site_id\": \"b\"}\n";
        let change = marked(text).expect("a change");
        assert_eq!(change, "{\"event_id\":\"evt-0000000000\",\"site_id\":\"a\"}");
        assert!(marked("no JSON\n").is_err());
        assert!(marked("").is_err());
    }

    #[test]
    fn quantiles_are_of_the_sorted_lives() {
        let measured = Measured::new(1.0, vec![3.0, 1.0, 2.0]);
        assert_eq!((measured.p50_seconds, measured.p99_seconds), (2.0, 3.0));
        assert!(Measured::new(1.0, Vec::new()).p50_seconds.is_nan());
    }
}
