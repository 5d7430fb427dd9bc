//! One side that hangs beside one that works, over HTTP.

use crate::door::at;
use crate::door::program::{PATIENCE, serve, stop};
use crate::main_job::{Place, printed};
use crate::support::{change, example, program, run};
use leasehold::sandbox::{Sandbox, SandboxOptions};
use serde_json::Value;
use std::path::Path;

/// Longer than any test.
const HANGS_MILLISECONDS: u64 = 3_600_000;
const ENDED: usize = 20;

/// Delivers some changes until they have ended, and tells nobody of it; answers their ids.
async fn ended(place: &Place, journal: &Path, cms: &Sandbox) -> Vec<String> {
    let changes = std::fs::read_to_string(example("changes.ndjson")).expect("readable");
    let lines: Vec<_> = changes.lines().take(ENDED).collect();
    let file = place.path("some.ndjson");
    std::fs::write(&file, lines.join("\n")).expect("writable");
    let mut command = program();
    command.args(["run", "--json", "--config"]).arg(place.config(&cms.origin()));
    command.arg("--journal").arg(journal).arg(file);
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("no panic").expect("it runs");
    assert_eq!(printed(&output)["succeeded"], ENDED);
    let id = |line: &&str| {
        let change: Value = serde_json::from_str(line).expect("JSON");
        change["event_id"].as_str().expect("a text").to_owned()
    };
    lines.iter().map(id).collect()
}

#[test]
fn a_cms_that_hangs_delays_nothing_that_goes_to_the_receiver() {
    run(async {
        let place = Place::new();
        let well = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let (journal, socket) = (place.path("journal"), place.path("door.sock"));
        let ended = ended(&place, &journal, &well).await;
        let latency_milliseconds = HANGS_MILLISECONDS;
        let options = SandboxOptions { latency_milliseconds, ..SandboxOptions::default() };
        let hanging = Sandbox::start(options).await.expect("it starts");
        // The CMS comes first in the configuration. One call at once for each side, so that the one that
        // hangs is all that the CMS may have.
        let config = place.config_of_all(&well.origin());
        let text = std::fs::read_to_string(&config).expect("just written");
        let text = text.replacen(&well.origin(), &hanging.origin(), 1);
        std::fs::write(&config, format!("in_flight_max = 3\n{text}")).expect("writable");
        let paths = [&config, &journal, &socket].map(|path| path.display().to_string());
        let flags = ["--config", "--journal", "--socket"];
        let places = flags.iter().zip(&paths).flat_map(|(flag, path)| [*flag, path.as_str()]);
        let arguments: Vec<_> = places.chain(["--drain-seconds", "0.05"]).collect();
        // It says where it listens before it calls anybody, so nobody has to answer it meanwhile.
        let (child, _) = serve(&arguments);
        for id in ["event-1", "event-2"] {
            assert_eq!(at(&socket, "POST", "/v1/dispatch", &change(id)).await.status, 201);
        }
        let told = async {
            hanging.received().wait_for(|count| *count >= 1).await.expect("it lives");
            for id in &ended {
                let path = format!("/v1/processing/{id}");
                loop {
                    let answer = at(&socket, "GET", &path, "").await;
                    if answer.status == 200 && answer.json()["status"] == "succeeded" {
                        break;
                    }
                }
            }
        };
        tokio::time::timeout(PATIENCE, told).await.expect("the receiver is told of everything");
        let health = at(&socket, "GET", "/v1/health", "").await.json();
        let counts = &health["dispatch"]["counts"];
        assert_eq!((&counts["leased"], &counts["pending"]), (&1.into(), &1.into()), "{counts}");
        assert_eq!((*hanging.received().borrow(), well.summary().notifications), (1, 20));
        assert_eq!(stop(child), Some(0));
    });
}
