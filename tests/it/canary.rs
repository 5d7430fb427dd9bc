//! A marker in every payload, key, header, address and answer shows up nowhere else.

use crate::main_job::Place;
use crate::support::{change_with, engine, program, run};
use leasehold::http::{CmsClient, CmsOptions, HmacSha256Signer, StaticAuthHeader};
use leasehold::{Claim, Dispatch, ManualClock, MemoryDisk};
use leasehold_actors::contract::text::Token;
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
             [lifecycle]\nmax_failures = 3\nbase_delay_seconds = 0.01\nmax_delay_seconds = 0.02\n\
             [dispatch]\nmax_attempts = 3\nbase_delay_seconds = 0.01\nmax_delay_seconds = 0.02\n"
        );
        std::fs::write(&config, text).expect("writable");
        let journal = place.path("journal");
        let mut run = program();
        run.args(["run", "--config"]).arg(&config).arg("--journal").arg(&journal).arg(&file);
        let mut commands = vec![run];
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
        for mut command in commands {
            command.env("RUST_LOG", "trace");
            let output = tokio::task::spawn_blocking(move || command.output())
                .await
                .expect("no panic")
                .expect("the program runs");
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8(said).expect("text");
            assert!(!said.is_empty());
            // The file is named in the report of a refused document; its folder is not ours to hide.
            let ours = said.replace(&file.display().to_string(), "FILE");
            assert!(!ours.contains(CANARY), "{ours}");
        }
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
