//! `leasehold top` as a program, at a real door.

use crate::door::{Served, TOKEN};
use crate::main_job::Place;
use crate::support::{program, run};
use std::path::Path;
use std::process::Output;

/// Runs the program while the door answers.
async fn top(arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = program();
    command.arg("top").args(arguments).stdin(std::process::Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let Output { status, stdout, stderr } = output.expect("no panic").expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

#[test]
fn at_a_socket_it_prints_once_how_everything_stands() {
    run(async {
        let (served, socket, _folder) = Served::at_socket().await;
        let socket = socket.display().to_string();
        let (code, text, said) = top(&["--socket", &socket, "--once"]).await;
        assert_eq!((code, said.as_str()), (Some(0), ""));
        assert!(text.starts_with("ALL IS WELL. 0 due now, 0 in flight.\n"), "{text}");
        served.failed("event-1").await;
        let (code, text, said) = top(&["--socket", &socket, "--once"]).await;
        assert_eq!((code, said.as_str()), (Some(1), ""), "{text}");
        assert!(text.starts_with("BLOCKED: dispatch. 1 record is stuck"), "{text}");
        let command = "http://localhost/v1/dispatch/event-1/requeue\n";
        assert!(text.contains("dispatch event-1 failed network") && text.contains(command));
        served.close().await;
    });
}

#[test]
fn on_an_address_it_shows_the_token_of_its_file_and_another_one_is_refused() {
    run(async {
        let (served, place) = (Served::at_port().await, Place::new());
        let url = format!("http://{}", served.address());
        let file = |name: &str, token: &str| {
            let path = place.path(name);
            std::fs::write(&path, token).expect("writable");
            path.display().to_string()
        };
        let right = file("right", TOKEN);
        let (code, text, said) = top(&["--url", &url, "--token-file", &right, "--once"]).await;
        assert_eq!((code, said.as_str()), (Some(0), ""));
        assert!(text.contains("ALL IS WELL") && !text.contains("canary"), "{text}");
        let none = place.path("none").display().to_string();
        for (token, code, said) in [
            (file("wrong", "another-canary-token"), 3, "door_token_refused"),
            (file("short", "canary"), 2, "door_token_invalid"),
            (none, 3, "input_unreadable"),
        ] {
            let (found, text, words) =
                top(&["--url", &url, "--token-file", &token, "--once"]).await;
            assert_eq!((found, text.as_str()), (Some(code), ""), "{words}");
            assert!(words.contains(said) && !words.contains("canary"), "{words}");
        }
        served.close().await;
    });
}

#[test]
fn where_nobody_answers_it_ends_with_a_code_and_names_no_path() {
    run(async {
        let place = Place::new();
        let token = place.path("token").display().to_string();
        std::fs::write(&token, TOKEN).expect("writable");
        // Somebody had this port, and has it no more.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        drop(listener);
        let socket = place.path("canary.sock").display().to_string();
        for arguments in [
            vec!["--socket", &socket, "--once"],
            vec!["--socket", &socket],
            vec!["--url", &url, "--token-file", &token, "--once"],
        ] {
            let (code, text, said) = top(&arguments).await;
            assert_eq!((code, text.as_str()), (Some(3), ""), "{said}");
            assert!(said.contains("door_unreachable"), "{said}");
            assert!(!said.contains("canary") && !said.contains("127.0.0.1"), "{said}");
        }
    });
}

#[test]
fn without_a_terminal_it_says_what_can_be_done() {
    run(async {
        let (served, socket, _folder) = Served::at_socket().await;
        let (code, text, said) = top(&["--socket", &socket.display().to_string()]).await;
        assert_eq!((code, text.as_str()), (Some(2), ""));
        assert!(said.contains("--once"), "{said}");
        served.close().await;
    });
}

#[test]
fn its_example_names_the_socket_of_the_example_of_serve() {
    let help = |command: &str| {
        let output = program().args([command, "--help"]).output().expect("it runs");
        String::from_utf8(output.stdout).expect("text")
    };
    let socket = |text: &str| {
        let (_, after) = text.rsplit_once("--socket ").expect("its example names one");
        Path::new(after.trim()).to_path_buf()
    };
    assert_eq!(socket(&help("top")), socket(&help("serve")));
}
