//! Auditing in code: keep a head elsewhere, verify a journal and an archive of it, and say why a record
//! stands where it stands.

use leasehold::audit::{Pins, Place, Source, audit, explain};
use leasehold::{Clock as _, Dispatch, Engine, SystemClock, Timestamp};
use std::error::Error;
use std::fs::File;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("journal");
    let engine = Engine::builder(&path).open().await?;
    let mut changes = include_str!("changes.ndjson").lines();
    engine.dispatch().enqueue(changes.next().ok_or("an example")?, 5).await?;
    // This belongs where whoever can write the journal's folder cannot write.
    let kept_elsewhere = engine.head();
    let claim = engine.dispatch().claim("worker-1", 600.0).await?.ok_or("it is due")?;
    engine.dispatch().retry(&claim, "cms.unavailable").await?;
    engine.close().await;

    // Works on a copy: the folder is not changed, and the engine has to be closed.
    let source = Source::open(&path)?;
    let report = audit(&source, Some(kept_elsewhere.hash));
    println!("{}", serde_json::to_string(&report)?);
    assert!(report.clean && report.records == 3);

    // One portable file, verified while it is written; it is read by the same functions.
    let archive = folder.path().join("journal.leasehold");
    source.export(&mut File::create(&archive)?)?;
    assert_eq!(audit(&Source::open(&archive)?, None).head, report.head);

    // Another history, however sound in itself, does not have that head.
    let rewritten = folder.path().join("rewritten");
    let engine = Engine::builder(&rewritten).open().await?;
    engine.dispatch().enqueue(changes.next().ok_or("an example")?, 5).await?;
    engine.close().await;
    let report = audit(&Source::open(&rewritten)?, Some(kept_elsewhere.hash));
    let codes: Vec<&str> = report.findings.iter().map(|finding| finding.code.as_str()).collect();
    assert_eq!(codes, ["head_not_found"]);

    let now = Timestamp::new(SystemClock.now_seconds()).ok_or("a time")?;
    let place = Place::folder("journal");
    let (explanation, _) =
        explain::explain::<Dispatch>(&source, "help-0001", &Pins::default(), &place, now)?;
    println!("{}", explain::text(&explanation.ok_or("it is there")?, now));
    Ok(())
}

#[test]
fn a_journal_verifies_and_another_history_is_noticed() {
    main().expect("it runs to its end");
}
