//! Damaged, shortened, replaced, foreign and unreadable journals: a code each, nothing silent, no
//! panic.

use crate::main_job::{Place, printed};
use crate::support::{example, program};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Output;

fn deliver(journal: &Path, file: &Path) -> Output {
    program()
        .args(["run", "--sandbox", "--until", "accepted", "--json", "--journal"])
        .arg(journal)
        .arg(file)
        .output()
        .expect("the program runs")
}

/// A journal with the first `lines` examples delivered.
fn journal(place: &Place, lines: usize) -> std::path::PathBuf {
    let path = place.path("journal");
    let text = std::fs::read_to_string(example("changes.ndjson")).expect("readable");
    let some: String = text.lines().take(lines).flat_map(|line| [line, "\n"]).collect();
    let file = place.path("some.ndjson");
    std::fs::write(&file, some).expect("writable");
    let output = deliver(&path, &file);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    path
}

fn reading(command: &str, path: &Path) -> Output {
    program().args([command]).arg(path).output().expect("the program runs")
}

pub(crate) fn copy(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status();
    assert!(done.expect("cp runs").success());
}

pub(crate) fn text(output: &Output) -> String {
    let both = [output.stdout.clone(), output.stderr.clone()].concat();
    String::from_utf8(both).expect("text")
}

/// Every file below a folder and beside it, with its bytes.
pub(crate) fn files(place: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![place.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                found.insert(path.display().to_string(), Vec::new());
                folders.push(path);
            } else {
                found.insert(path.display().to_string(), std::fs::read(&path).expect("readable"));
            }
        }
    }
    found
}

#[test]
fn reading_commands_leave_every_file_as_it_was() {
    let place = Place::new();
    let path = journal(&place, 60);
    let folder = path.parent().expect("a parent").to_path_buf();
    let archive = tempfile::tempdir().expect("a temporary folder");
    let before = files(&folder);
    let export = archive.path().join("archive");
    for arguments in [
        vec!["health"],
        vec!["list"],
        vec!["audit"],
        vec!["show", "@", "dispatch", "hut-0001"],
        vec!["export", "@", export.to_str().expect("text")],
    ] {
        let mut command = program();
        command.arg(arguments[0]).arg(&path);
        command.args(arguments.iter().skip(2));
        let output = command.output().expect("the program runs");
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output));
        assert_eq!(files(&folder).keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
        assert!(files(&folder) == before, "{arguments:?} changed a file");
    }
    for command in ["health", "list", "audit", "verify"] {
        assert_eq!(reading(command, &export).status.code(), Some(0), "{command} reads an archive");
    }
}

#[test]
fn one_changed_byte_is_found_or_was_nothing_that_is_read() {
    let place = Place::new();
    let path = journal(&place, 40);
    let whole = place.path("whole");
    assert_eq!(
        program().arg("export").arg(&path).arg(&whole).status().expect("runs").code(),
        Some(0)
    );
    let whole = std::fs::read(whole).expect("readable");
    let database = path.join("db").join("db");
    let bytes = std::fs::read(&database).expect("readable");
    // Bytes spread over what is written; the rest of the file is sled's own padding.
    let written: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] != 0).collect();
    let (mut found, tries) = (0, 60);
    for number in 0..tries {
        let at = written[number * (written.len() - 1) / (tries - 1)];
        let damaged = place.path(&format!("damaged-{number}"));
        copy(&path, &damaged);
        std::fs::copy(path.with_extension("anchor"), damaged.with_extension("anchor")).expect("ok");
        let mut changed = bytes.clone();
        changed[at] ^= 0x20;
        std::fs::write(damaged.join("db").join("db"), changed).expect("writable");
        let output = reading("audit", &damaged);
        match output.status.code() {
            Some(1 | 3) => {
                let said = text(&output);
                let named = ["journal_", "record_", "replay_", "storage_"];
                assert!(named.iter().any(|code| said.contains(code)), "byte {at}: {said}");
                found += 1;
            }
            Some(0) => {
                let out = place.path(&format!("out-{number}"));
                let status = program().arg("export").arg(&damaged).arg(&out).status();
                assert_eq!(status.expect("runs").code(), Some(0), "byte {at}");
                assert!(std::fs::read(out).expect("readable") == whole, "byte {at}: a silent loss");
            }
            other => panic!("byte {at}: exit {other:?}"),
        }
    }
    assert!(found > tries / 2, "{found} of {tries} found");
}

#[test]
fn a_file_cut_short_or_missing_is_found_and_refused_for_writing() {
    let place = Place::new();
    let path = journal(&place, 40);
    let length = std::fs::metadata(path.join("db").join("db")).expect("there").len();
    let more = example("changes.ndjson");
    for (number, kept) in [0, length / 8, length / 4, length / 2].into_iter().enumerate() {
        let cut = place.path(&format!("cut-{number}"));
        copy(&path, &cut);
        std::fs::copy(path.with_extension("anchor"), cut.with_extension("anchor")).expect("ok");
        let file = std::fs::OpenOptions::new().write(true).open(cut.join("db").join("db"));
        file.expect("there").set_len(kept).expect("it can be cut");
        let output = reading("audit", &cut);
        assert!(matches!(output.status.code(), Some(1 | 3)), "{kept} bytes: {}", text(&output));
        let before = std::fs::read(cut.join("anchor")).expect("readable");
        let output = deliver(&cut, Path::new(&more));
        assert_eq!(output.status.code(), Some(3), "{kept} bytes: {}", text(&output));
        assert!(text(&output).contains("journal_"), "{}", text(&output));
        assert!(std::fs::read(cut.join("anchor")).expect("readable") == before);
    }
    for name in ["anchor", "db/conf", "db/db"] {
        let missing = place.path(&format!("no-{}", name.replace('/', "-")));
        copy(&path, &missing);
        std::fs::remove_file(missing.join(name)).expect("it was there");
        let output = reading("audit", &missing);
        assert!(matches!(output.status.code(), Some(1 | 3)), "{name}: {}", text(&output));
        assert_eq!(deliver(&missing, Path::new(&more)).status.code(), Some(3), "{name}");
    }
}

#[test]
fn an_older_copy_put_back_is_found_with_the_number_that_is_missing() {
    let place = Place::new();
    let path = journal(&place, 20);
    let older = place.path("older");
    copy(&path, &older);
    let output = deliver(&path, Path::new(&example("changes.ndjson")));
    assert_eq!(output.status.code(), Some(0));
    std::fs::remove_dir_all(&path).expect("removable");
    std::fs::rename(&older, &path).expect("movable");
    let output = reading("audit", &path);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output);
    assert!(said.contains("journal_behind_anchor at record 80: 880 records"), "{said}");
    for command in ["health", "list"] {
        let output = reading(command, &path);
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(text(&output).contains("journal_behind_anchor"), "{command}: {}", text(&output));
    }
    for command in ["show", "explain"] {
        let record = ["dispatch", "hut-0001"];
        let output = program().arg(command).arg(&path).args(record).output().expect("it runs");
        assert_eq!(output.status.code(), Some(1), "{command}");
        assert!(text(&output).contains("journal_behind_anchor"), "{command}: {}", text(&output));
        assert!(text(&output).contains("succeeded"), "{command} tells what is there");
    }
    let output = deliver(&path, Path::new(&example("changes.ndjson")));
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output).contains("journal_behind_anchor: 880 records missing"),
        "{}",
        text(&output)
    );
}

#[test]
fn an_expected_head_tells_a_rewritten_journal_from_a_longer_one() {
    let place = Place::new();
    let path = journal(&place, 20);
    let head = printed(&program().args(["audit", "--json"]).arg(&path).output().expect("it runs"));
    let head = head["head"].as_str().expect("a head").to_owned();
    let expecting = |path: &Path| {
        program().arg("audit").arg(path).args(["--expect-head", &head]).output().expect("it runs")
    };
    assert_eq!(expecting(&path).status.code(), Some(0));
    deliver(&path, Path::new(&example("changes.ndjson")));
    assert_eq!(expecting(&path).status.code(), Some(0), "it only grew");
    let other = Place::new();
    let rewritten = journal(&other, 20);
    let output = expecting(&rewritten);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("head_not_found"));
}

#[test]
fn a_journal_that_cannot_be_had_ends_in_exit_3_with_its_code() {
    let place = Place::new();
    let path = journal(&place, 5);
    let file = std::path::PathBuf::from(example("changes.ndjson"));
    let plain = place.path("plain");
    std::fs::create_dir(&plain).expect("a folder");
    std::fs::write(plain.join("letter.txt"), "dear").expect("writable");
    let holder = std::fs::File::open(path.join("lock")).expect("there");
    fs4::FileExt::try_lock(&holder).expect("nobody else holds it");
    for (output, code) in [
        (deliver(&path, &file), "journal_locked"),
        (reading("audit", &path), "journal_locked"),
        (deliver(&plain, &file), "journal_not_a_journal"),
        (reading("audit", &plain), "journal_not_a_journal"),
        (reading("audit", &place.path("none")), "journal_missing"),
        (deliver(&place.path("some.ndjson"), &file), "journal_not_a_journal"),
    ] {
        assert_eq!(output.status.code(), Some(3), "{code}: {}", text(&output));
        assert!(text(&output).contains(code), "{code}: {}", text(&output));
    }
    drop(holder);
    // A text file is read as an archive, and is none.
    for command in ["audit", "health", "list", "verify"] {
        let output = reading(command, &place.path("some.ndjson"));
        assert_eq!(output.status.code(), Some(3), "{command}");
        assert!(text(&output).contains("journal_not_a_journal"), "{}", text(&output));
    }
    let output = deliver(&place.path("no").join("such"), &file);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output).contains("journal_parent_missing"), "{}", text(&output));
    assert!(!place.path("plain.sandbox").exists(), "nothing was touched beside what was refused");
}

#[test]
fn an_empty_folder_where_a_journal_was_is_refused_and_says_how_to_go_on() {
    let place = Place::new();
    let path = journal(&place, 5);
    let file = std::path::PathBuf::from(example("changes.ndjson"));
    std::fs::remove_dir_all(&path).expect("removable");
    let output = deliver(&path, &file);
    assert_eq!(output.status.code(), Some(3));
    let said = text(&output);
    assert!(said.contains("journal_behind_anchor: 20 records missing after sequence 0"), "{said}");
    assert!(said.contains("remove the .anchor file"), "{said}");
    std::fs::remove_file(path.with_extension("anchor")).expect("removable");
    assert_eq!(deliver(&path, &file).status.code(), Some(0));
}

#[test]
fn a_killed_opens_leftover_does_not_disturb_readers_and_readers_do_not_shut_each_other_out() {
    let place = Place::new();
    let path = journal(&place, 5);
    std::fs::write(path.join("db").join("snap.00000000000000FF.generating"), b"half").expect("ok");
    let readers: Vec<_> = (0..6)
        .map(|_| program().arg("health").arg(&path).stdout(std::process::Stdio::piped()).spawn())
        .collect();
    for reader in readers {
        let output = reader.expect("it runs").wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    }
}

/// A small file system of its own; `None`, with a notice, where this user may not mount one.
struct Mounted(std::path::PathBuf);

impl Mounted {
    fn new(at: &Path, options: &str) -> Option<Self> {
        std::fs::create_dir_all(at).expect("a folder");
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "tmpfs"]).arg(at);
        mount.stderr(std::process::Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(at.to_path_buf()));
        }
        eprintln!("skipped: this user may not mount a file system");
        None
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let done = std::process::Command::new("umount").arg("-l").arg(&self.0).status();
        assert!(done.is_ok_and(|status| status.success()), "it was mounted");
    }
}

#[test]
fn a_full_disk_ends_in_storage_full_and_with_room_the_same_command_continues() {
    let place = Place::new();
    let Some(disk) = Mounted::new(&place.path("disk"), "size=64m,mode=0700") else { return };
    let path = disk.0.join("journal");
    let all = std::path::PathBuf::from(example("changes.ndjson"));
    let some = place.path("one.ndjson");
    let text_of_all = std::fs::read_to_string(&all).expect("readable");
    std::fs::write(&some, text_of_all.lines().next().expect("a line")).expect("writable");
    assert_eq!(deliver(&path, &some).status.code(), Some(0));
    let filler = disk.0.join("filler");
    let mut file = std::fs::File::create(&filler).expect("writable");
    while std::io::Write::write_all(&mut file, &[1; 4096]).is_ok() {}
    let output = deliver(&path, &all);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("storage_full"), "{}", text(&output));
    // Not only removed: a child process that is just being started has a copy of the handle for a moment.
    file.set_len(0).expect("it can be cut");
    drop(file);
    std::fs::remove_file(filler).expect("removable");
    let output = deliver(&path, &all);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(printed(&output)["succeeded"], 240);
}

fn private(path: &Path) {
    let done = std::process::Command::new("chmod").args(["-R", "go="]).arg(path).status();
    assert!(done.expect("chmod runs").success());
}

/// A journal whose making was cut off before its database held anything.
fn half_made(place: &Place, name: &str, settings: &[u8]) -> std::path::PathBuf {
    let path = place.path(name);
    std::fs::create_dir_all(path.join("db")).expect("writable");
    std::fs::write(path.join("lock"), "").expect("writable");
    std::fs::write(path.join("db/conf"), settings).expect("writable");
    private(&path);
    path
}

#[test]
fn a_journal_whose_making_was_cut_off_is_made_again_and_one_that_was_made_never() {
    let place = Place::new();
    let all = std::path::PathBuf::from(example("changes.ndjson"));
    let whole = std::fs::read(journal(&place, 1).join("db/conf")).expect("readable");
    // sled was killed before it wrote the checksum.
    let half = &whole[..whole.len() - 4];
    let bare = half_made(&place, "bare", half);
    let zeros = half_made(&place, "zeros", half);
    std::fs::write(zeros.join("db/db"), vec![0; 100_000]).expect("writable");
    private(&zeros);
    for path in [bare, zeros] {
        let output = deliver(&path, &all);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    }
    let written = half_made(&place, "written", half);
    std::fs::write(written.join("db/db"), [&[0; 5000][..], b"x"].concat()).expect("writable");
    private(&written);
    let anchored = half_made(&place, "anchored", half);
    std::fs::write(place.path("anchored.anchor"), "anything").expect("writable");
    for path in [written, anchored] {
        let output = deliver(&path, &all);
        assert_eq!(output.status.code(), Some(3), "{}", text(&output));
        assert_eq!(std::fs::read(path.join("db/conf")).expect("readable"), half);
    }
}

#[test]
fn a_read_only_disk_can_be_read_and_not_written() {
    let place = Place::new();
    let Some(disk) = Mounted::new(&place.path("disk"), "size=64m,mode=0700") else { return };
    let path = disk.0.join("journal");
    let all = std::path::PathBuf::from(example("changes.ndjson"));
    assert_eq!(deliver(&path, &all).status.code(), Some(0));
    let done = std::process::Command::new("mount").args(["-o", "remount,ro"]).arg(&disk.0).status();
    assert!(done.expect("mount runs").success());
    let sandboxed = deliver(&path, &all);
    assert_eq!(sandboxed.status.code(), Some(3), "{}", text(&sandboxed));
    let config = program()
        .args(["run", "--config", &example("leasehold.toml"), "--journal"])
        .arg(&path)
        .arg(&all)
        .output()
        .expect("it runs");
    assert_eq!(config.status.code(), Some(3), "{}", text(&config));
    assert!(text(&config).contains("storage_readonly"), "{}", text(&config));
    assert_eq!(reading("audit", &path).status.code(), Some(0));
}
