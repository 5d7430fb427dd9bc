//! The guide: every command in a block marked `sh run` works as it is typed, in the order of its page; what
//! it names is there.

use crate::support::example;
use leasehold::metrics;
use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Programs a page may use beside the shell's own; a block is left out where one is not installed.
const PROGRAMS: [&str; 3] = ["curl", "openssl", "python3"];
/// Where the pages have the sandbox.
const SANDBOX: &str = "127.0.0.1:8700";

const PAGES: [&str; 7] =
    ["README", "embed", "running", "moving-in", "operating", "auditing", "recovering"];

fn page(name: &str) -> String {
    let path = format!("{}/docs/{name}.md", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(path).expect("a page of the guide")
}

/// A block of a page: its line, what it is marked as, what it says.
struct Block<'a> {
    line: usize,
    mark: &'a str,
    text: String,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let (mut blocks, mut open) = (Vec::new(), None::<Block<'_>>);
    for (at, line) in page.lines().enumerate() {
        open = match (open, line.strip_prefix("```")) {
            (None, Some(mark)) => Some(Block { line: at + 2, mark, text: String::new() }),
            (Some(block), Some(_)) => {
                blocks.push(block);
                None
            }
            (Some(mut block), None) => {
                block.text += line;
                block.text.push('\n');
                Some(block)
            }
            (None, None) => None,
        };
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

fn is_installed(program: &str) -> bool {
    let mut asked = Command::new(program);
    asked.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// An address that is free now.
fn free() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("it has an address").to_string()
}

/// A folder that looks like the repository's, as far as the pages go, with its sandbox at this address.
fn folder(address: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let examples = folder.path().join("examples");
    fs::create_dir(&examples).expect("writable");
    for name in [
        "changes.ndjson",
        "mixed.ndjson",
        "sandbox.key",
        "sandbox.authorization",
        "verify_archive.py",
        "reference.sqlite",
    ] {
        fs::copy(example(name), examples.join(name)).expect("copied");
    }
    let config = fs::read_to_string(example("leasehold.toml")).expect("readable");
    fs::write(examples.join("leasehold.toml"), config.replace(SANDBOX, address)).expect("written");
    folder
}

/// The blocks to run, as one script that says where it is. What is started in one block may be ended in a
/// later one.
fn script(page: &str, address: &str) -> String {
    let missing: Vec<&str> = PROGRAMS.into_iter().filter(|it| !is_installed(it)).collect();
    let mut script = "set -eu\n".to_owned();
    for block in blocks(page).iter().filter(|block| block.mark == "sh run") {
        match missing.iter().find(|program| block.text.contains(*program)) {
            Some(program) => eprintln!("skipped: line {}: {program} is not installed", block.line),
            None => script += &format!("echo '== line {}' >&2\n{}", block.line, block.text),
        }
    }
    script.replace(SANDBOX, address)
}

/// Runs the marked blocks of a page.
fn works(name: &str) {
    let (address, page) = (free(), page(name));
    let folder = folder(&address);
    let program = Path::new(env!("CARGO_BIN_EXE_leasehold"));
    let mut path = vec![program.parent().expect("it is in a folder").to_path_buf()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    // Into a file: what is left running must not keep a pipe open.
    let said = folder.path().join("said");
    let out = File::create(&said).expect("writable");
    let mut shell = Command::new("sh")
        .args(["-c", &script(&page, &address)])
        .current_dir(folder.path())
        .env("PATH", std::env::join_paths(path).expect("no separator in a folder's name"))
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(out.try_clone().expect("a second handle"))
        .stderr(out)
        .process_group(0)
        .spawn()
        .expect("there is a shell");
    let ended = shell.wait().expect("it was started");
    // What a page that failed left running; after one that worked there is nobody to be told.
    let group = format!("-{}", shell.id());
    let told = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
    assert!(told.is_ok(), "there is a kill");
    let said = fs::read_to_string(&said).expect("text");
    assert!(ended.success(), "{name}: {ended}\n{said}");
}

#[test]
fn running_works_as_it_is_typed() {
    works("running");
}

#[cfg(feature = "import")]
#[test]
fn moving_in_works_as_it_is_typed() {
    works("moving-in");
}

#[test]
fn operating_works_as_it_is_typed() {
    works("operating");
}

#[test]
fn auditing_works_as_it_is_typed() {
    works("auditing");
}

#[test]
fn recovering_works_as_it_is_typed() {
    works("recovering");
}

#[test]
fn no_command_of_the_program_stands_in_a_block_that_does_not_run() {
    for name in PAGES {
        let page = page(name);
        let blocks = blocks(&page);
        for block in &blocks {
            let shell = block.mark.starts_with("sh");
            let commands = shell && block.text.lines().any(|it| it.starts_with("leasehold "));
            assert!(!commands || block.mark == "sh run", "{name}, line {}", block.line);
        }
        let runs = blocks.iter().filter(|block| block.mark == "sh run").count();
        assert_eq!(runs > 0, !["README", "embed"].contains(&name), "{name}");
    }
}

/// What a page leads to: the target and the place in it.
fn links(page: &str) -> Vec<(&str, Option<&str>)> {
    let ends = page.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    let links = ends.map(|(link, _)| link).filter(|link| !link.contains("://"));
    links.map(|link| link.split_once('#').map_or((link, None), |(to, at)| (to, Some(at)))).collect()
}

/// The names of a page's headings, as they are linked to.
fn anchors(page: &str) -> Vec<String> {
    let headings = page.lines().filter(|line| line.starts_with('#'));
    let kept = |it: char| it.is_alphanumeric() || it == ' ' || it == '-';
    let name = |line: &str| -> String {
        let line = line.trim_start_matches('#').trim().to_lowercase();
        line.chars().filter(|it| kept(*it)).map(|it| if it == ' ' { '-' } else { it }).collect()
    };
    headings.map(name).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let docs = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut followed = 0;
    for name in PAGES {
        let page = page(name);
        for (to, at) in links(&page) {
            let target = if to.is_empty() { format!("{name}.md") } else { to.to_owned() };
            let path = docs.join(&target);
            assert!(path.exists(), "{name}: {target}");
            if let Some(at) = at {
                let there = anchors(&fs::read_to_string(path).expect("a page"));
                assert!(there.iter().any(|anchor| anchor == at), "{name}: {target}#{at}");
            }
            followed += 1;
        }
    }
    assert!(followed > 20);
}

#[test]
fn every_metric_has_a_line_in_the_guide_and_every_line_is_of_a_metric() {
    let page = page("operating");
    let lines = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let mut told: Vec<&str> = lines.map(|(name, _)| name).filter(|it| is_metric(it)).collect();
    let mut there: Vec<&str> = metrics::names().collect();
    told.sort_unstable();
    there.sort_unstable();
    assert_eq!(told, there);
}

fn is_metric(word: &str) -> bool {
    word.starts_with("leasehold_") || word.starts_with("process_")
}

/// The metrics an expression names, without the endings of a histogram's series.
fn named(expression: &str) -> Vec<&str> {
    let words = expression.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    words
        .filter(|word| is_metric(word))
        .map(|word| {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|it| word.strip_suffix(it));
            base.filter(|base| base.ends_with("_duration_seconds")).unwrap_or(word)
        })
        .collect()
}

#[test]
fn the_alerts_name_metrics_that_there_are() {
    let page = page("operating");
    let alerts = blocks(&page).into_iter().find(|block| block.text.contains("alert:"));
    let alerts = alerts.expect("there are some").text;
    let named = named(&alerts);
    assert!(named.len() >= 5, "{named:?}");
    for name in named {
        assert!(metrics::names().any(|known| known == name), "{name}");
    }
}

#[test]
fn the_dashboard_shows_every_metric_and_no_other() {
    let text = fs::read_to_string(example("grafana.json")).expect("readable");
    let board: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let mut shown = Vec::new();
    for panel in board["panels"].as_array().expect("a list") {
        let title = panel["title"].as_str().expect("every panel has a title");
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expression = target["expr"].as_str().expect("a query");
            let named = named(expression);
            assert!(!named.is_empty(), "{title} asks for nothing of ours");
            shown.extend(named.into_iter().map(ToOwned::to_owned));
        }
        let asks = panel["targets"].is_array();
        assert_eq!(asks, panel["type"] != "row", "{title}");
        assert_eq!(asks, panel["fieldConfig"]["defaults"]["unit"].is_string(), "{title}");
    }
    shown.sort_unstable();
    shown.dedup();
    let mut there: Vec<&str> = metrics::names().collect();
    there.sort_unstable();
    assert_eq!(shown, there);
}
