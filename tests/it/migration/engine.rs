//! An engine over what was imported: what it hands over, and what its door says.

use super::{brought, here, options};
use crate::door::Served;
use crate::support::{code, run};
use crate::wire_flows::there;
use leasehold::{Engine, HandOver, ManualClock, MemoryDisk};
use serde_json::Value;

#[test]
fn an_imported_record_is_handed_over_unless_the_next_component_had_it_already() {
    let (dispatch, lifecycle) =
        (here().join("dispatch-7-000.sqlite"), here().join("lifecycle-7-000.sqlite"));
    for (stores, state, polls) in
        [(&[dispatch.as_path()][..], "pending", 0), (&[&dispatch, &lifecycle], "failed", 1)]
    {
        let disk = MemoryDisk::new();
        assert!(brought(&disk, stores, options(false)).is_whole());
        run(async {
            let hand_over = HandOver { lifecycle_max_failures: Some(5), ..HandOver::default() };
            let builder = Engine::in_memory(&disk).clock(ManualClock::at(super::AT));
            let engine = builder.hand_over(hand_over).open().await.expect("it opens");
            there(|| engine.lifecycle().status("evt-6")).await;
            let status = engine.lifecycle().status("evt-6").await.expect("it is there");
            assert_eq!((status.state, status.poll_attempts), (state, polls));
            if stores.len() == 1 {
                // It failed: nothing follows from it.
                let missing = code(engine.lifecycle().status("evt-0").await);
                assert_eq!(missing, "lifecycle_monitor.event_missing");
            }
            engine.close().await;
        });
    }
}

#[test]
fn the_door_says_of_a_record_that_it_was_brought_here() {
    let disk = MemoryDisk::new();
    let store = here().join("dispatch-7-000.sqlite");
    assert!(brought(&disk, &[&store], options(false)).is_whole());
    run(async {
        let served = Served::on(&disk, "c").await;
        let explained = served.get("/v1/dispatch/evt-0/explain").await.json();
        assert_eq!(
            (&explained["imported"]["at"], &explained["imported"]["attempts"]),
            (&Value::from(super::AT), &Value::from(1))
        );
        let page = served.get("/records/dispatch/evt-0").await;
        let told = page.body.matches("which are not in this journal: 1").count();
        assert_eq!((page.status, told), (200, 2), "among its events, and why it stands there");
        served.close().await;
    });
}
