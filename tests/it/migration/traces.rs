//! The reference's second halves, replayed over the stores its first halves had written.

use super::{brought, here, opened, options};
use crate::conformance::Compared;
use crate::conformance::traces::{Component, Trace, against};
use crate::support::snapshots;
use leasehold::{Delivery, Dispatch, Lifecycle, MemoryDisk, Processing};
use leasehold_actors::codec;
use leasehold_journal::StoreReader as _;
use leasehold_journal::walk::Item;
use std::collections::BTreeMap;
use std::path::PathBuf;

fn folders() -> Vec<PathBuf> {
    let more = std::env::var_os("LEASEHOLD_MIGRATION_DIR").map(PathBuf::from);
    [here()].into_iter().chain(more).collect()
}

/// Every trace of a component, twice: leases of before are left alone when the engine opens, and the engine
/// is told to end those of an earlier life, which these are not.
fn moves_in<F: Component>(name: &str) {
    let mut compared = Compared::default();
    for folder in folders() {
        let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).expect("readable");
        for line in text.split('\n').filter(|line| !line.is_empty()) {
            let trace: Trace = serde_json::from_str(line).expect("a trace");
            assert_eq!(trace.component, name);
            let store = folder.join(trace.store.as_ref().expect("a store"));
            for end_leases in [false, true] {
                let disk = MemoryDisk::new();
                let report = brought(&disk, &[&store], options(false));
                assert!(report.is_whole(), "{}: {:?}", trace.name, report.left_out);
                assert!(report.total().imported > 0, "{}", trace.name);
                against::<F>(&trace, &disk, end_leases, &mut compared);
            }
        }
    }
    println!("{name}: {} steps, {} fields compared", compared.steps, compared.fields);
    assert!(compared.steps > 0 && compared.fields > compared.steps);
}

#[test]
fn dispatch_goes_on_as_the_reference_would_have() {
    moves_in::<Dispatch>("dispatch");
}

#[test]
fn lifecycle_goes_on_as_the_reference_would_have() {
    moves_in::<Lifecycle>("lifecycle");
}

#[test]
fn processing_goes_on_as_the_reference_would_have() {
    moves_in::<Processing>("processing");
}

#[test]
fn delivery_goes_on_as_the_reference_would_have() {
    moves_in::<Delivery>("delivery");
}

#[test]
fn an_imported_record_keeps_its_bytes_and_its_version() {
    let disk = MemoryDisk::new();
    let stores = ["dispatch", "lifecycle", "processing", "delivery"]
        .map(|name| here().join(format!("{name}-7-000.sqlite")));
    let stores: Vec<_> = stores.iter().map(PathBuf::as_path).collect();
    assert!(brought(&disk, &stores, options(false)).is_whole());
    let mut samples: BTreeMap<&str, String> = BTreeMap::new();
    let mut take = |item| {
        let Item::Record { record, .. } = item else { return Ok(()) };
        let body = record?.body;
        assert_eq!(body[1], codec::VERSION);
        let flow = codec::flow_of(&body).expect("a flow of ours").name();
        *samples.entry(flow).or_default() += &format!("{}\n", crate::wire::hex(&body));
        Ok(())
    };
    opened(&disk).reader().walk(None, &mut take).expect("it verifies");
    assert_eq!(samples.len(), 4);
    snapshots("wire").bind(|| {
        for (flow, samples) in samples {
            insta::assert_snapshot!(format!("imported_v5_{flow}"), samples);
        }
    });
}
