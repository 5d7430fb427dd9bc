//! The reference's second halves, replayed over the stores its first halves had written.

use super::{Home, brought, here, opened, options};
use crate::conformance::Compared;
use crate::conformance::traces::{Component, Trace, against};
use crate::support::snapshots;
use leasehold::MemoryDisk;
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
fn moves_in<F: Component, H: Home>(name: &str, new: &dyn Fn() -> H) {
    let mut compared = Compared::default();
    for folder in folders() {
        let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).expect("readable");
        for line in text.split('\n').filter(|line| !line.is_empty()) {
            let trace: Trace = serde_json::from_str(line).expect("a trace");
            assert_eq!(trace.component, name);
            let store = folder.join(trace.store.as_ref().expect("a store"));
            for end_leases in [false, true] {
                let home = new();
                let report = home.bring(&[&store]);
                assert!(report.is_whole(), "{}: {:?}", trace.name, report.left_out);
                assert!(report.total().imported > 0, "{}", trace.name);
                against::<F>(&trace, home.engine(), end_leases, &mut compared);
            }
        }
    }
    println!("{name}: {} steps, {} fields compared", compared.steps, compared.fields);
    assert!(compared.steps > 0 && compared.fields > compared.steps);
}

mod memory {
    use super::moves_in;
    use leasehold::{Delivery, Dispatch, Lifecycle, MemoryDisk, Processing};

    #[test]
    fn dispatch_goes_on_as_the_reference_would_have() {
        moves_in::<Dispatch, _>("dispatch", &MemoryDisk::new);
    }

    #[test]
    fn lifecycle_goes_on_as_the_reference_would_have() {
        moves_in::<Lifecycle, _>("lifecycle", &MemoryDisk::new);
    }

    #[test]
    fn processing_goes_on_as_the_reference_would_have() {
        moves_in::<Processing, _>("processing", &MemoryDisk::new);
    }

    #[test]
    fn delivery_goes_on_as_the_reference_would_have() {
        moves_in::<Delivery, _>("delivery", &MemoryDisk::new);
    }
}

#[cfg(feature = "postgres")]
mod server {
    use super::moves_in;
    use crate::postgres::cluster;
    use leasehold::{Delivery, Dispatch, Lifecycle, Processing};

    #[test]
    fn dispatch_goes_on_as_the_reference_would_have() {
        let Some(cluster) = cluster() else { return };
        moves_in::<Dispatch, _>("dispatch", &|| cluster.place());
    }

    #[test]
    fn lifecycle_goes_on_as_the_reference_would_have() {
        let Some(cluster) = cluster() else { return };
        moves_in::<Lifecycle, _>("lifecycle", &|| cluster.place());
    }

    #[test]
    fn processing_goes_on_as_the_reference_would_have() {
        let Some(cluster) = cluster() else { return };
        moves_in::<Processing, _>("processing", &|| cluster.place());
    }

    #[test]
    fn delivery_goes_on_as_the_reference_would_have() {
        let Some(cluster) = cluster() else { return };
        moves_in::<Delivery, _>("delivery", &|| cluster.place());
    }
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
