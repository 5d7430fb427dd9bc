//! A server that goes away, tables that are changed, and tables of other versions.

use super::engines::eventually;
use crate::postgres::{Cluster, builder, cluster};
use crate::support::{accepted, change, code, run};
use leasehold::audit::{Source, audit};
use leasehold::{Engine, JournalError, PostgresPlace};
use leasehold_journal::postgres::{PostgresMedium, VERSION};
use leasehold_journal::store::Append;
use leasehold_journal::{JournalId, Log, LogOptions, Store as _, StoreReader as _, StreamId};
use std::time::Duration;

fn log(place: &PostgresPlace) -> Log<PostgresMedium> {
    let medium = PostgresMedium::open(place, true).expect("the server is there");
    let options = LogOptions { new_id: JournalId([7; 16]), create: true };
    Log::open(medium, options, &mut |_| Ok(())).expect("it opens")
}

fn append(stream: u8, expected_version: u32) -> Append {
    let bodies = vec![vec![stream]];
    Append { stream: StreamId([stream; 16]), expected_version, bodies, alone: None }
}

#[test]
fn j1_of_two_writers_the_second_goes_on_behind_the_first_and_a_stale_append_is_left_out() {
    let Some(cluster) = cluster() else { return };
    let place = cluster.place();
    let (mut first, mut second) = (log(&place), log(&place));
    assert_eq!(first.id(), second.id());
    assert!(first.commit(&[append(1, 0)]).expect("it commits")[0].is_ok());
    // It has not heard of that: its own stream goes through, the other's is left out.
    let answers = second.commit(&[append(1, 0), append(2, 0)]).expect("it commits");
    assert!(answers[0].is_err());
    assert_eq!(answers[1].expect("nobody else's").sequence, 2);
    assert!(first.follow().expect("it follows"));
    assert_eq!(first.reader().moved(2), (2, vec![StreamId([2; 16])]));
    assert_eq!(first.reader().head(), second.reader().head());
}

#[test]
fn equal_pieces_of_large_bodies_in_one_commit_are_kept_once_and_read_back() {
    let Some(cluster) = cluster() else { return };
    let mut log = log(&cluster.place());
    let large = |stream: u8| {
        let bodies = vec![vec![b'x'; 300_000]];
        Append { stream: StreamId([stream; 16]), expected_version: 0, bodies, alone: None }
    };
    let answers = log.commit(&[large(1), large(2)]).expect("it commits");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let records = log.reader().read_stream(StreamId([2; 16])).expect("it verifies");
    assert_eq!(records[0].body, vec![b'x'; 300_000]);
}

#[test]
fn an_engine_that_knows_more_than_the_server_stops_writing_and_says_so() {
    let Some(cluster) = cluster() else { return };
    let (schema, place) = cluster.named();
    let mut log = log(&place);
    for version in 0..3 {
        assert!(log.commit(&[append(1, version)]).expect("it commits")[0].is_ok());
    }
    // As after a database was put back to an older state.
    let back = format!(
        "DELETE FROM {schema}.frames WHERE first = 3;
         UPDATE {schema}.head SET sequence = 2, hash = decode(repeat('00', 32), 'hex')"
    );
    cluster.psql(&back).expect("it is the owner");
    assert_eq!(log.commit(&[append(1, 3)]), Err(JournalError::Diverged { sequence: 3 }));
    assert_eq!(log.commit(&[append(1, 3)]), Err(JournalError::Poisoned));
}

/// Restarts the server under engines that keep enqueueing and delivering.
#[test]
fn a_server_that_restarts_needs_no_restart_of_an_engine_and_loses_nothing() {
    let Some(cluster) = Cluster::alone() else { return };
    let cluster: &'static Cluster = Box::leak(Box::new(cluster));
    let place = cluster.place();
    run(async {
        let engine = builder(&place).open().await.expect("it opens");
        let other = builder(&place).open().await.expect("it opens");
        for round in 0..3 {
            let load = async {
                for number in 0..20 {
                    let name = format!("event-{round}-{number}");
                    engine.dispatch().enqueue(change(&name), 5).await.expect("it waits");
                }
                let mut settled = 0;
                while settled < 20 {
                    // A record that has to be read while the server is away is asked for again.
                    let Ok(Some(claim)) = other.dispatch().claim("w", 60.0).await else {
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        continue;
                    };
                    let name = claim.request().event_id.as_str().to_owned();
                    let done = other.dispatch().complete(&claim, accepted(&name, 2)).await;
                    done.expect("it waits");
                    settled += 1;
                }
            };
            let restart = std::thread::spawn(move || cluster.restart());
            load.await;
            restart.join().expect("the server is back");
        }
        eventually("settled", || async {
            let health = engine.dispatch().health().await.expect("a health");
            health.counts["succeeded"] == 60
        })
        .await;
        engine.close().await;
        other.close().await;
    });
    let report = audit(&Source::on_server(&place).expect("it is there"), None);
    assert_eq!(report.findings.len(), 0, "{:?}", report.findings);
}

#[test]
fn what_is_changed_in_the_tables_is_found_and_a_journal_that_lost_its_end_is_not_opened() {
    let Some(cluster) = cluster() else { return };
    let (schema, place) = cluster.named();
    run(async {
        let engine = builder(&place).open().await.expect("it opens");
        for name in ["event-1", "event-2", "event-3"] {
            engine.dispatch().enqueue(change(name), 5).await.expect("it is valid");
        }
        engine.close().await;
    });
    let findings = || audit(&Source::on_server(&place).expect("it is there"), None).findings.len();
    assert_eq!(findings(), 0);
    let kept = format!("CREATE TABLE {schema}.kept AS SELECT * FROM {schema}.frames");
    cluster.psql(&kept).expect("it is the owner");
    let flip = format!(
        "UPDATE {schema}.frames SET bytes = set_byte(bytes, 60, get_byte(bytes, 60) # 1)
         WHERE first = 2"
    );
    cluster.psql(&flip).expect("it is the owner");
    assert!(findings() > 0);
    assert_eq!(opening(&place), "journal_corrupt");
    let back = format!(
        "UPDATE {schema}.frames f SET bytes = k.bytes FROM {schema}.kept k WHERE k.first = f.first;
         DELETE FROM {schema}.frames WHERE first = 3"
    );
    cluster.psql(&back).expect("it is the owner");
    assert_eq!(opening(&place), "journal_behind_anchor");
}

#[test]
fn tables_are_brought_forward_under_engines_that_run_and_newer_ones_are_refused() {
    let Some(cluster) = cluster() else { return };
    let (schema, place) = cluster.named();
    let older = PostgresMedium::open_as(&place, true, 1).expect("it makes version 1");
    let options = LogOptions { new_id: JournalId([7; 16]), create: true };
    let mut older = Log::open(older, options, &mut |_| Ok(())).expect("it opens");
    assert!(older.commit(&[append(1, 0)]).expect("it commits")[0].is_ok());
    let mut newer = log(&place);
    assert!(newer.commit(&[append(2, 0)]).expect("it commits")[0].is_ok());
    assert!(older.commit(&[append(3, 0)]).expect("the older one goes on")[0].is_ok());
    let reopened = PostgresMedium::open_as(&place, true, 1).err();
    assert_eq!(reopened, Some(JournalError::Newer { version: VERSION }));
    cluster.psql(&format!("UPDATE {schema}.version SET version = 99")).expect("the owner");
    let refused = PostgresMedium::open(&place, true).err();
    assert_eq!(refused, Some(JournalError::Newer { version: 99 }));
    assert_eq!(cluster.psql(&format!("SELECT count(*) FROM {schema}.frames")), Ok("3".to_owned()));
}

#[test]
fn where_there_is_no_server_no_database_or_no_journal_that_is_said() {
    let Some(cluster) = cluster() else { return };
    let nobody = PostgresPlace::parse("postgres://leasehold@127.0.0.1:1/postgres").expect("a URL");
    assert_eq!(opening(&nobody), "storage_unreachable");
    let url = cluster.url().replace("/postgres?", "/nowhere?");
    assert_eq!(opening(&PostgresPlace::parse(&url).expect("a URL")), "journal_parent_missing");
    let missing = Source::on_server(&cluster.place()).err();
    assert_eq!(missing, Some(JournalError::Missing));
}

fn opening(place: &PostgresPlace) -> String {
    code(run(builder(place).open()).map(|_: Engine| ()))
}
