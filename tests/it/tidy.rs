//! What a machine can check of the house's rules.

use leasehold_actors::invariants;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &str) -> Vec<(String, String)> {
    fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a folder of ours") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                collect(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    collect(&root().join(folder), &mut found);
    found.sort();
    found
        .into_iter()
        .map(|path| {
            let name = path.strip_prefix(root()).expect("below the root").display().to_string();
            (name, std::fs::read_to_string(path).expect("text"))
        })
        .collect()
}

fn all_sources() -> Vec<(String, String)> {
    ["journal/src", "actors/src", "src"].into_iter().flat_map(rust_files).collect()
}

/// A file without its tests.
fn body(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().expect("split gives at least one part")
}

#[test]
fn no_file_is_over_400_lines_without_its_tests_and_each_says_what_it_owns() {
    for (name, text) in all_sources().into_iter().chain(rust_files("tests/it")) {
        let lines = body(&text).lines().count();
        assert!(lines <= 400, "{name} has {lines} lines");
        assert!(text.starts_with("//! "), "{name} does not say what it owns");
        for word in ["util", "common", "helper", "misc"] {
            assert!(!name.contains(word), "{name} has no subject");
        }
    }
}

#[test]
fn no_function_is_over_60_lines() {
    for (name, text) in all_sources() {
        let mut start: Option<(usize, usize, &str)> = None;
        for (number, line) in text.lines().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let code = line.trim_start();
            let opens = [
                "fn ",
                "pub fn ",
                "pub(crate) fn ",
                "pub(super) fn ",
                "async fn ",
                "pub async fn ",
                "pub(super) async fn ",
                "const fn ",
                "pub const fn ",
            ]
            .iter()
            .any(|keyword| code.starts_with(keyword));
            if opens {
                start = Some((number, indent, line));
            }
            if let Some((first, depth, header)) = start
                && code == "}"
                && indent == depth
            {
                let length = number - first + 1;
                assert!(length <= 60, "{name}: {} has {length} lines", header.trim());
                start = None;
            }
        }
    }
}

#[test]
fn arrows_point_from_src_to_actors_to_journal_and_libraries_stay_in_their_rooms() {
    let rooms: [(&str, &[&str]); 16] = [
        ("bincode::", &["journal/src/payload.rs"]),
        ("rusqlite::", &["src/import/"]),
        ("sled::", &["journal/src/sled/", "journal/src/lib.rs"]),
        ("reqwest::", &["src/http/"]),
        ("actix::", &["actors/src/shell/"]),
        ("leasehold_actors", &["src/"]),
        ("axum::", &["src/sandbox/", "src/door/"]),
        ("hyper::", &["src/door/"]),
        ("metrics::", &["src/metrics.rs"]),
        ("metrics_exporter_prometheus::", &["src/metrics.rs"]),
        ("clap::", &["src/cli/"]),
        ("ratatui::", &["src/top/", "src/cli/top.rs"]),
        ("SystemTime::now", &["src/clock.rs"]),
        ("Instant::now", &["src/clock.rs", "journal/src/postgres/"]),
        ("tokio_postgres::", &["journal/src/postgres/"]),
        ("deadpool_postgres::", &["journal/src/postgres/"]),
    ];
    for (name, text) in all_sources() {
        for (word, allowed) in rooms {
            let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
            let used = code.into_iter().any(|line| {
                line.match_indices(word).any(|(at, _)| {
                    // `crate::sled::` and `leasehold_journal::sled::` are our own module.
                    !line[..at].ends_with("crate::") && !line[..at].ends_with("leasehold_journal::")
                })
            });
            let here = allowed.iter().any(|room| name.starts_with(room));
            assert!(!used || here, "{name} uses {word}");
        }
    }
}

#[test]
fn the_pure_modules_know_no_actor_no_thread_and_no_file() {
    for (name, text) in rust_files("actors/src") {
        if name.starts_with("actors/src/shell/") {
            continue;
        }
        let shell = name == "actors/src/lib.rs"; // which only names the module
        for word in
            ["crate::shell", "std::thread", "std::fs", "std::io", "tokio", "async fn", "tracing"]
        {
            assert!(shell || !body(&text).contains(word), "{name} uses {word}");
        }
    }
}

#[test]
fn every_invariant_is_named_by_a_test() {
    let mut tests: String = rust_files("tests/it").into_iter().map(|(_, text)| text).collect();
    tests.push_str(
        &rust_files("journal/tests").into_iter().map(|(_, text)| text).collect::<String>(),
    );
    let ids = invariants::ALL.iter().map(|invariant| invariant.id.to_lowercase());
    for id in ids.chain((1..=6).map(|number| format!("j{number}"))) {
        let named = tests.lines().filter(|line| line.trim_start().starts_with("fn "));
        let found = named.into_iter().any(|line| {
            line.trim_start().trim_start_matches("fn ").split(['_', '(']).any(|word| word == id)
        });
        assert!(found, "no test is named after {id}");
    }
}

#[test]
fn no_text_speaks_of_a_machine_or_leaves_work_undone() {
    for (name, text) in all_sources() {
        for word in ["TODO", "FIXME", "XXX", "todo!", "unimplemented!", "/home/", "/work/"] {
            assert!(!body(&text).contains(word), "{name} contains {word}");
        }
    }
}
