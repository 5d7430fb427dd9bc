//! The program's texts: help, usage errors, messages, lists.

use crate::main_job::{Place, printed};
use crate::support::{example, program, snapshots};
use leasehold::config::Config;
use leasehold::sandbox::{receiver_digest, source_digest};

fn stdout(arguments: &[&str]) -> (Option<i32>, String) {
    let output =
        program().args(arguments).env("COLUMNS", "100").output().expect("the program runs");
    (output.status.code(), String::from_utf8(output.stdout).expect("text"))
}

fn stderr(arguments: &[&str]) -> (Option<i32>, String) {
    let output =
        program().args(arguments).env("COLUMNS", "100").output().expect("the program runs");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

#[cfg(feature = "import")] // without it there is one command less
#[test]
fn help_of_every_command_is_as_it_was_read() {
    let commands = [
        "",
        "run",
        "serve",
        "top",
        "sandbox",
        "health",
        "list",
        "show",
        "explain",
        "audit",
        "report",
        "replay",
        "requeue",
        "dismiss",
        "repin",
        "pause",
        "resume",
        "archive",
        "export",
        "import",
        "verify",
        "doctor",
        "salvage",
        "import-sqlite",
        "bench",
    ];
    snapshots("help").bind(|| {
        for command in commands {
            let arguments: Vec<&str> =
                [command, "--help"].into_iter().filter(|word| !word.is_empty()).collect();
            let (code, text) = stdout(&arguments);
            assert_eq!(code, Some(0), "{command}");
            let name = if command.is_empty() { "leasehold" } else { command };
            insta::assert_snapshot!(name, text);
        }
    });
}

/// The words of a line as a shell reads them, as far as examples go.
fn words(line: &str) -> Vec<&str> {
    let parts = line.split('"').enumerate();
    let words =
        parts.flat_map(
            |(number, part)| {
                if number % 2 == 1 { vec![part] } else { part.split(' ').collect() }
            },
        );
    words.filter(|word| !word.is_empty()).collect()
}

#[cfg(feature = "import")]
#[test]
fn every_example_in_a_help_text_is_one_that_works() {
    let place = Place::new();
    let root = env!("CARGO_MANIFEST_DIR");
    let mut tried = Vec::new();
    // In this order: the first makes the journal that the others read.
    let commands = [
        "run",
        "health",
        "list",
        "show",
        "explain",
        "audit",
        "report",
        "replay",
        "requeue",
        "dismiss",
        "pause",
        "resume",
        "archive",
        "export",
        "import",
        "verify",
        "doctor",
        "salvage",
        "import-sqlite",
    ];
    for command in commands {
        let (_, text) = stdout(&[command, "--help"]);
        let line = text.lines().find_map(|line| line.trim().strip_prefix("leasehold "));
        let line = line.unwrap_or_else(|| panic!("{command} has no example"));
        let arguments: Vec<String> = words(line)
            .into_iter()
            .map(|word| match word {
                _ if word.starts_with("examples/") => format!("{root}/{word}"),
                _ if word.starts_with("demo") => place.path(word).display().to_string(),
                _ => word.to_owned(),
            })
            .collect();
        let output = program().args(&arguments).output().expect("the program runs");
        assert_eq!(
            output.status.code(),
            Some(0),
            "{line}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        tried.push(command);
    }
    assert_eq!(tried.len(), commands.len());
}

#[test]
fn wrong_usage_ends_in_exit_2_with_a_usage_text() {
    for arguments in [
        vec!["sandbox", "--handler", "done=1"],
        vec!["sandbox", "--handler", "crash=0.9", "--handler", "stuck=0.9"],
        vec!["sandbox", "--inbox-max-attempts", "21"],
        vec!["sandbox", "--inbox-lease", "0"],
        vec!["sandbox", "--inbox-base-delay", "301"],
        vec!["fly"],
        vec!["run"],
        vec!["list", "j", "--state", "bogus"],
        vec!["run", "x.ndjson", "--journal", "j"],
        vec!["run", "x.ndjson", "--journal", "j", "--sandbox", "--config", "c"],
        vec!["run", "x.ndjson", "--journal", "j", "--sandbox", "--via", "pigeon"],
        vec!["show", "j", "dispatch"],
        vec!["sandbox", "--fault", "fire=1"],
        vec!["sandbox", "--fault", "drop=0.9", "--fault", "5xx=0.9"],
        vec!["audit", "j", "--expect-head", "abc"],
        vec!["bench", "--records", "0"],
        vec!["bench", "--in-flight", "0"],
        vec!["bench", "--backlog", "4", "--settled", "5"],
        vec!["bench", "--idle-seconds", "3601"],
        vec!["bench", "--idle-seconds=-1"],
        vec!["bench", "--idle-seconds", "nan"],
        vec!["bench", "--http", "some"],
        vec!["health", "j", "--as-of", "-1"],
        vec!["top"],
        vec!["top", "--url", "http://127.0.0.1:8790"],
        vec!["top", "--socket", "s", "--url", "http://127.0.0.1:8790", "--token-file", "t"],
        vec!["top", "--socket", "s", "--every", "0"],
        vec!["top", "--socket", "s", "--every", "nan"],
        vec!["top", "--url", "http://canary.example", "--token-file", "t"],
        vec!["archive", "j", "--to", "a"],
        vec!["archive", "j", "--older-than", "3"],
        vec!["archive", "j", "--to", "a", "--older-than", "3", "--before", "5"],
        vec!["archive", "j", "--to", "a", "--before", "-5"],
    ] {
        let (code, text) = stderr(&arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {text}");
        assert!(!text.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_configuration_that_cannot_be_used_names_the_key_and_never_the_value() {
    let place = Place::new();
    let path = place.path("c.toml");
    let journal = place.path("j").display().to_string();
    let valid = std::fs::read_to_string(example("leasehold.toml")).expect("readable");
    for (from, to, code, said) in [
        ("[dispatch]", "canary = 1\n[dispatch]", 2, "config_syntax: line"),
        ("max_attempts = 20", "max_attempts = 77", 2, "dispatch.max_attempts: 1 to 20"),
        (
            "lease_seconds = 600.0",
            "lease_seconds = 30.0",
            2,
            "dispatch.lease_seconds: longer than one call can take",
        ),
        ("http://127.0.0.1:8700", "http://canary.example", 2, "cms.origin"),
        ("key_file = \"sandbox.key\"", "key_file = \"canary\"", 2, "cms.signing"),
        ("\"0aaae401", "\"canary", 2, "receiver.capabilities_sha256"),
        ("value_file = \"sandbox.authorization\"", "value_file = \"canary\"", 2, "authorization"),
        ("max_failures = 20", "max_failures = 0", 2, "lifecycle.max_failures: 1 to 20"),
        (
            "unclean_losses_max = 5",
            "unclean_losses_max = 1001",
            2,
            "unclean_losses_max: at most 1000",
        ),
        ("source_max_attempts = 5", "source_max_attempts = 21", 2, "source.source_max_attempts"),
        ("key_file = \"sandbox.key\"", "key_env = \"CANARY_NOT_SET\"", 2, "cms.signing"),
        ("in_flight_max = 192", "in_flight_max = 1", 2, "in_flight_max: 3 to 3072"),
        ("breaker_failures = 10", "breaker_failures = 0", 2, "cms.breaker_failures: 1 to 1000"),
    ] {
        std::fs::write(&path, valid.replacen(from, to, 1)).expect("writable");
        for name in ["sandbox.key", "sandbox.authorization"] {
            std::fs::copy(example(name), place.path(name)).expect("copied");
        }
        let config = path.display().to_string();
        let file = example("changes.ndjson");
        let (found, text) = stderr(&["run", &file, "--journal", &journal, "--config", &config]);
        assert_eq!(found, Some(code), "{to}: {text}");
        assert!(text.contains(said) && !text.to_lowercase().contains("canary"), "{to}: {text}");
    }
    let (found, text) =
        stderr(&["run", &example("changes.ndjson"), "--journal", &journal, "--config", "/none"]);
    assert_eq!((found, text.contains("config_unreadable")), (Some(3), true), "{text}");
    assert!(!place.path("j").exists(), "nothing was written");
}

#[test]
fn the_example_configuration_is_whole_and_pins_the_sandbox() {
    let path = example("leasehold.toml");
    let config = Config::read(std::path::Path::new(&path)).expect("it is valid");
    let receiver = config.receiver.expect("it has the section");
    assert_eq!(Some(receiver.capabilities_sha256), receiver_digest().map(|pin| pin.to_string()));
    let source = config.source.expect("it has the section");
    assert_eq!(Some(source.capabilities_sha256), source_digest().map(|pin| pin.to_string()));
    let limits = [receiver.in_flight_max, source.in_flight_max];
    assert_eq!((limits, config.in_flight_max), ([64, 64], 192));
    // A section that is left out is the default, and the file says every default.
    let text = std::fs::read_to_string(path).expect("readable");
    let sections = ["dispatch", "lifecycle", "notification", "processing", "delivery"];
    for section in sections {
        let from = text.find(&format!("[{section}]")).expect("it is there");
        let keys = text[from..].lines().skip(1).take_while(|line| !line.starts_with('['));
        let keys = keys.filter(|line| line.contains(" = ") && !line.starts_with('#')).count();
        assert!(keys >= 6, "{section}: {keys} keys");
    }
}

#[test]
fn a_way_that_is_not_configured_is_refused_before_anything_is_written() {
    let place = Place::new();
    let cms = std::fs::read_to_string(place.config("http://127.0.0.1:1")).expect("just written");
    let config = place.path("leasehold.toml").display().to_string();
    let journal = place.path("j").display().to_string();
    let file = example("mixed.ndjson");
    let run = |via: &str| {
        stderr(&["run", &file, "--journal", &journal, "--config", &config, "--via", via])
    };
    let (code, text) = run("source");
    assert_eq!((code, text.contains("needs the section [source]")), (Some(2), true), "{text}");
    let from = cms.find("[cms]").expect("it starts with it");
    let to = cms.find("[dispatch]").expect("it follows");
    let source = format!(
        "{}[source]\norigin = \"http://127.0.0.1:1\"\nallow_http_loopback = true\n\
         capabilities_sha256 = \"{}\"\n[source.authorization]\nvalue_file = \"{}\"\n{}",
        &cms[..from],
        "c".repeat(64),
        example("sandbox.authorization"),
        &cms[to..],
    );
    std::fs::write(&config, source).expect("writable");
    let (code, text) = run("cms");
    assert_eq!((code, text.contains("needs the section [cms]")), (Some(2), true), "{text}");
    assert!(!place.path("j").exists() && !place.path("j.anchor").exists(), "nothing was written");
}

#[test]
fn lists_filter_and_show_tells_one_records_history() {
    let place = Place::new();
    let journal = place.path("journal").display().to_string();
    let (code, _) =
        stdout(&["run", "--sandbox", &example("changes.ndjson"), "--journal", &journal]);
    assert_eq!(code, Some(0));
    let lines = |arguments: &[&str]| stdout(arguments).1.lines().count();
    assert_eq!(lines(&["list", &journal, "--json"]), 4 * 240, "one record in each flow it passed");
    let of_site = lines(&["list", &journal, "--json", "--site", "hut-booking"]);
    assert!(of_site > 0 && of_site < 960);
    assert_eq!(lines(&["list", &journal, "--json", "--state", "failed"]), 0);
    assert_eq!(lines(&["list", &journal, "--json", "--flow", "dispatch"]), 240);
    let output = program().args(["show", &journal, "dispatch", "hut-0001", "--json"]).output();
    let history = printed(&output.expect("the program runs"));
    let events: Vec<_> = history["events"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|event| event["event"].as_str().expect("a name"))
        .collect();
    assert_eq!(events, ["registered", "claimed", "completed"]);
    assert_eq!(history["status"]["status"], "succeeded");
    let (code, text) = stderr(&["show", &journal, "dispatch", "nobody"]);
    assert_eq!((code, text.contains("record_missing")), (Some(1), true), "{text}");
    let (code, text) = stdout(&["health", &journal]);
    assert_eq!((code, text.starts_with("dispatch: ok")), (Some(0), true), "{text}");
}

/// The lines of a bench of 60 lives.
fn benched(arguments: &[&str]) -> Vec<serde_json::Value> {
    let place = Place::new();
    let folder = place.path(".").display().to_string();
    let mut all = vec!["bench", "--records", "60", "--in-flight", "8", "--folder", &folder];
    all.extend(arguments);
    let (code, text) = stdout(&all);
    assert_eq!(code, Some(0));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn value(figures: &[serde_json::Value], name: &str) -> f64 {
    let mut named = figures.iter().filter(|figure| figure["figure"] == name);
    let figure = named.next().unwrap_or_else(|| panic!("no {name}"));
    assert!(named.next().is_none(), "{name} twice");
    figure["value"].as_f64().filter(|value| value.is_finite()).unwrap_or_else(|| panic!("{name}"))
}

#[test]
fn the_bench_prints_every_figure() {
    let figures =
        benched(&["--backlog", "32", "--settled", "8", "--http", "24", "--idle-seconds", "0.05"]);
    for name in [
        "enqueue_per_second",
        "enqueue_many_per_second",
        "lives_per_second",
        "life_p50_seconds",
        "claim_p99_seconds",
        "claim_beside_commit_p99_seconds",
        "health_seconds",
        "open_seconds",
        "open_verifying_seconds",
        "audit_events_per_second",
        "audit_cpu_seconds",
        "audit_events_per_cpu_second",
        "disk_bytes_per_life",
        "disk_of_record_bytes",
        "disk_bytes_after_rounds",
        "disk_of_record_bytes_after_rounds",
        "raw_limit_lives_per_second",
        "lives_of_raw_limit",
        "raw_single_append_p50_seconds",
        "life_in_raw_single_appends",
        "http_lives_per_second",
    ] {
        assert!(value(&figures, name) > 0.0, "{name}");
    }
    assert!(value(&figures, "idle_cpu_seconds_per_minute") >= 0.0);
    let beside = value(&figures, "claim_beside_commit_p99_seconds");
    assert!(beside < value(&figures, "claim_p99_seconds"), "no claim is durable for nothing");
    for figure in &figures {
        let work = ["records", "backlog", "in_flight", "settled"].map(|key| figure[key].as_u64());
        let expected = match figure["figure"].as_str().expect("a name") {
            "http_lives_per_second" => [Some(24), Some(0), Some(64), None],
            "idle_cpu_seconds_per_minute" => [Some(0), Some(32), Some(16), None],
            name if name.ends_with("_after_rounds") => [Some(60), Some(0), Some(8), None],
            _ => [Some(60), Some(32), Some(8), Some(8)],
        };
        assert_eq!(work, expected, "{figure}");
    }
}

#[test]
fn the_bench_leaves_out_what_is_not_asked_for() {
    let figures = benched(&["--backlog", "4", "--http", "0"]);
    for name in ["http_lives_per_second", "idle_cpu_seconds_per_minute"] {
        assert!(figures.iter().all(|figure| figure["figure"] != name), "{name}");
    }
    assert!(figures.iter().all(|figure| figure.get("settled").is_none()));
    assert!(value(&figures, "lives_per_second") > 0.0);
}
