//! A marker in every payload, key, header, address and answer shows up nowhere else.

use crate::main_job::Place;
use crate::support::{accepted, change_with, engine, program, run};
use crate::wire_flows::{self, DIGEST, acknowledge, answering, attempt, lifecycle, there};
use leasehold::http::{
    CmsClient, CmsOptions, HmacSha256Signer, ReceiverClient, ReceiverOptions, SourceClient,
    SourceOptions, StaticAuthHeader,
};
use leasehold::sandbox::{Sandbox, SandboxOptions};
use leasehold::{CallFailure, Claim, Client, Clock, Dispatch, Handle, ManualClock, MemoryDisk};
use leasehold_actors::contract::text::{Sha256, Token};
use leasehold_actors::flows::Answers;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const CANARY: &str = "canary";

/// Answers every connection with the marker, in different ways of going wrong.
async fn canary_server() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        for number in 0_usize.. {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let answer = [
                "HTTP/1.1 500 canary\r\nX-Canary: canary\r\nContent-Length: 6\r\n\r\ncanary",
                "HTTP/1.1 302 Found\r\nLocation: http://canary.example/canary\r\nContent-Length: 0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n{\"canary\":\"canary\"}",
                "canary canary\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\ncanary",
            ][number % 5];
            tokio::spawn(async move {
                let mut buffer = [0; 65_536];
                if stream.read(&mut buffer).await.is_ok() {
                    drop(stream.write_all(answer.as_bytes()).await);
                }
            });
        }
    });
    address
}

#[test]
fn nothing_that_is_printed_or_logged_carries_a_payload_a_key_or_an_answer() {
    run(async {
        let place = Place::new();
        let address = canary_server().await;
        let documents: String = (0..10)
            .map(|number| change_with(&format!("event-{number}"), &format!("{CANARY} text")) + "\n")
            .collect();
        let file = place.path("some.ndjson");
        std::fs::write(&file, format!("{documents}{{\"{CANARY}\": 1}}\n")).expect("writable");
        std::fs::write(place.path("key"), format!("{CANARY} key")).expect("writable");
        std::fs::write(place.path("value"), format!("{CANARY} value")).expect("writable");
        let config = place.path("c.toml");
        let text = format!(
            "[cms]\norigin = \"http://{address}\"\nallow_http_loopback = true\ntimeout_seconds = 2.0\n\
             [cms.signing]\nkey_id = \"{CANARY}\"\nkey_file = \"key\"\n\
             [cms.authorization]\nheader = \"X-{CANARY}\"\nvalue_file = \"value\"\n\
             [source]\norigin = \"http://{address}\"\nallow_http_loopback = true\n\
             timeout_seconds = 2.0\ncapabilities_sha256 = \"{DIGEST}\"\n\
             [source.authorization]\nvalue_file = \"value\"\n\
             [delivery]\nmax_attempts = 3\nbase_delay_seconds = 0.01\nmax_delay_seconds = 0.02\n\
             [lifecycle]\nmax_failures = 3\nbase_delay_seconds = 0.01\nmax_delay_seconds = 0.02\n\
             [dispatch]\nmax_attempts = 3\nbase_delay_seconds = 0.01\nmax_delay_seconds = 0.02\n"
        );
        std::fs::write(&config, text).expect("writable");
        let journal = place.path("journal");
        let mut run = program();
        run.args(["run", "--config"]).arg(&config).arg("--journal").arg(&journal).arg(&file);
        let mut source = program();
        source.args(["run", "--via", "source", "--config"]).arg(&config);
        source.arg("--journal").arg(&journal).arg(&file);
        let mut commands = vec![run, source];
        for name in ["health", "list", "audit"] {
            for json in [&["--json"][..], &[]] {
                let mut command = program();
                command.arg(name).arg(&journal).args(json);
                commands.push(command);
            }
        }
        let mut show = program();
        show.arg("show").arg(&journal).args(["dispatch", "event-0", "--json"]);
        commands.push(show);
        for (flow, id) in [("dispatch", "event-0"), ("delivery", "change/event-0")] {
            let mut explain = program();
            explain.arg("explain").arg(&journal).args([flow, id, "--config"]).arg(&config);
            commands.push(explain);
        }
        let page = place.path("report.html");
        let mut report = program();
        report.arg("report").arg(&journal).arg("-o").arg(&page).arg("--config").arg(&config);
        commands.push(report);
        for command in commands {
            // The file is named in the report of a refused document; its folder is not ours to hide.
            let ours = said(command).await.replace(&file.display().to_string(), "FILE");
            assert!(!ours.contains(CANARY), "{ours}");
        }
        let page = std::fs::read_to_string(page).expect("it is written");
        assert!(page.contains("event-0") && !page.contains(CANARY));
    });
}

/// All that a command prints and logs, at the most talkative level.
async fn said(mut command: std::process::Command) -> String {
    command.env("RUST_LOG", "trace");
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("no panic").expect("the program runs");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("text");
    assert!(!said.is_empty());
    said
}

#[test]
fn a_whole_life_through_all_flows_shows_no_source_text_and_no_credential() {
    run(async {
        let place = Place::new();
        let sandbox = Sandbox::start(SandboxOptions::default()).await.expect("it starts");
        let config = place.config_of_all(&sandbox.origin());
        std::fs::write(place.path("value"), format!("Bearer {CANARY}")).expect("writable");
        let file = place.path("some.ndjson");
        let change = change_with("event-1", &format!("{CANARY} text"));
        std::fs::write(&file, change).expect("writable");
        let journal = place.path("journal");
        let mut commands = Vec::new();
        for via in ["cms", "source"] {
            let mut run = program();
            run.args(["run", "--via", via, "--config"]).arg(&config);
            run.arg("--journal").arg(&journal).arg(&file);
            commands.push(run);
        }
        for name in ["health", "list", "audit"] {
            let mut command = program();
            command.arg(name).arg(&journal).arg("--json");
            commands.push(command);
        }
        for (flow, id) in [
            ("dispatch", "event-1"),
            ("lifecycle", "event-1"),
            ("notification", "event-1"),
            ("processing", "event-1"),
            ("delivery", "change/event-1"),
        ] {
            let mut command = program();
            command.arg("show").arg(&journal).args([flow, id]);
            commands.push(command);
        }
        for command in commands {
            let text = said(command).await;
            assert!(!text.contains(CANARY) && !text.contains("record_missing"), "{text}");
        }
        assert_eq!(sandbox.summary().notifications, 1, "it went through all of them");
    });
}

/// Calls a client five times with a claim of this flow: once for each way of going wrong.
async fn go_wrong<F: Answers, C: Client<F>>(flow: &Handle<F>, client: &C, clock: &ManualClock) {
    let claim = flow.claim("w", 600.0).await.expect("a claim").expect("due");
    for _ in 0..5 {
        let failure = client.call(claim.request()).await.expect_err("nothing it says is an answer");
        let CallFailure::Marked { code, .. } = &failure else { panic!("it is marked") };
        assert!(!code.contains(CANARY) && !format!("{failure:?}").contains(CANARY), "{failure:?}");
    }
    let shown = format!("{:?} {claim:?} {:?}", claim.request(), flow.health().await);
    assert!(!shown.contains(CANARY), "{shown}");
    // The lease runs out, and with it the delay of a failure.
    clock.set(clock.now_seconds() + 600.0);
    assert!(flow.health().await.is_ok());
    drop(flow.claim("w", 100.0).await.expect("it may be due again"));
    clock.set(clock.now_seconds() + 1_000.0);
}

#[test]
fn no_answer_of_any_other_side_shows_in_what_its_caller_is_told() {
    run(async {
        let (disk, clock) = (MemoryDisk::new(), ManualClock::at(100.0));
        let engine = wire_flows::engine(&disk, &clock).await;
        let origin = format!("http://{}", canary_server().await);
        let pin = Sha256::from_hex(DIGEST).expect("a digest");
        let secret = || StaticAuthHeader::new("X-A".to_owned(), CANARY.to_owned().into());
        let cms = CmsOptions { allow_http_loopback: true, ..CmsOptions::new(&origin) };
        let key = HmacSha256Signer::new(Token::new("k").expect("a token"), b"k".to_vec().into());
        let cms = CmsClient::new(&cms, key.expect("a key"), secret()).expect("a client");
        let receiver =
            ReceiverOptions { allow_http_loopback: true, ..ReceiverOptions::new(&origin, pin) };
        let receiver = ReceiverClient::new(&receiver, secret()).expect("a client");
        let source =
            SourceOptions { allow_http_loopback: true, ..SourceOptions::new(&origin, pin) };
        let source = SourceClient::new(&source, secret()).expect("a client");
        let change = change_with("event-1", CANARY);
        engine.dispatch().enqueue(&change, 5).await.expect("it is valid");
        go_wrong(engine.dispatch(), &cms, &clock).await;
        attempt(engine.dispatch(), &answering(|_| Ok(accepted("event-1", 2)))).await;
        there(|| engine.lifecycle().status("event-1")).await;
        go_wrong(engine.lifecycle(), &cms, &clock).await;
        let end = lifecycle("0c", "cancelled");
        attempt(engine.lifecycle(), &answering(move |_| Ok(end.clone()))).await;
        there(|| engine.notification().status("event-1")).await;
        go_wrong(engine.notification(), &receiver, &clock).await;
        attempt(engine.notification(), &answering(acknowledge)).await;
        there(|| engine.processing().status("event-1")).await;
        go_wrong(engine.processing(), &receiver, &clock).await;
        engine.delivery().enqueue_change(&change, 5, 5).await.expect("it is valid");
        go_wrong(engine.delivery(), &source, &clock).await;
    });
}

#[test]
fn nothing_shows_a_secret_or_a_payload_in_its_debug_form() {
    run(async {
        let engine = engine(&MemoryDisk::new(), &ManualClock::at(1.0)).await;
        let flow = engine.dispatch();
        let known = flow.enqueue(change_with("event-1", CANARY), 5).await.expect("it is valid");
        let claim = flow.claim("w", 60.0).await.expect("a claim").expect("due");
        let parts = claim.to_parts();
        let token = claim.token().expose().to_owned();
        let same = Claim::<Dispatch>::from_parts(&parts).expect("nothing was altered");
        let key_id = Token::new("k").expect("a token");
        let signer =
            HmacSha256Signer::new(key_id, CANARY.as_bytes().to_vec().into()).expect("a key");
        let secret = StaticAuthHeader::new("X-A".to_owned(), CANARY.to_owned().into());
        let options = CmsOptions::new("https://cms.example");
        let client = CmsClient::new(&options, signer, secret).expect("a client");
        let shown = [
            format!("{known:?}"),
            format!("{claim:?} {same:?} {:?} {parts:?}", claim.request()),
            format!("{} {:?}", serde_json::to_string(&claim).expect("JSON"), claim.view()),
            format!("{engine:?} {flow:?} {client:?}"),
            format!("{:?}", flow.status("event-1").await),
        ];
        for text in shown {
            assert!(!text.contains(CANARY) && !text.contains(&token), "{text}");
        }
        assert_eq!(token.len(), 43);
    });
}
