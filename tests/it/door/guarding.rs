//! Who gets in: tokens, hosts, sessions, sockets, limits.

use super::{Served, TOKEN, at, bearer};
use crate::support::{change, run};
use leasehold::door::session::Token;
use leasehold::door::{Address, Door, DoorInvalid, DoorOptions};

#[test]
fn nobody_without_the_token_gets_anything_but_the_verdict() {
    run(async {
        let served = Served::at_port().await;
        let headers = ["", &bearer("another-token-of-the-door"), &bearer(""), "Cookie: a=b\r\n"];
        for headers in headers {
            for path in ["/v1/health", "/v1/overview", "/v1/records", "/v1/dispatch/a", "/metrics"]
            {
                let answer = served.ask("GET", path, headers, "").await;
                assert_eq!(answer.code(), (401, "door.unauthorized".to_owned()), "{path}");
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
            }
            let answer = served.ask("POST", "/v1/dispatch", headers, &change("a")).await;
            assert_eq!(answer.code().0, 401);
        }
        assert_eq!(served.ask("GET", "/healthz", "", "").await.status, 200);
        assert_eq!(served.get("/v1/health").await.status, 200);
        assert_eq!(served.get("/v1/dispatch/a").await.status, 404, "nothing was registered");
        served.close().await;
    });
}

#[test]
fn a_name_of_the_outside_that_leads_here_is_turned_away() {
    run(async {
        let served = Served::at_port().await;
        let ask = async |host: &str, path: &str| {
            let token = bearer(TOKEN);
            let request =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{token}\r\n");
            served.raw(request.as_bytes()).await
        };
        for host in ["canary.example", "canary.example:80", "10.0.0.1", ""] {
            let answer = ask(host, "/v1/health").await;
            assert_eq!(answer.code(), (403, "door.host_refused".to_owned()), "{host}");
            assert_eq!(ask(host, "/healthz").await.status, 403);
            assert_eq!(ask(host, "/login").await.status, 403);
        }
        for host in ["localhost:1", "127.0.0.1", "[::1]:8790"] {
            assert_eq!(ask(host, "/v1/health").await.status, 200, "{host}");
        }
        served.close().await;
    });
}

#[test]
fn unknown_paths_and_methods_are_named_by_code_and_not_repeated() {
    run(async {
        let served = Served::at_port().await;
        for (method, path, code) in [
            ("GET", "/canary", (404, "door.route_unknown")),
            ("GET", "/v1/canary/a", (404, "door.route_unknown")),
            ("DELETE", "/v1/health", (405, "door.method_refused")),
            ("POST", "/v1/records", (405, "door.method_refused")),
            ("POST", "/v1/dispatch/canary", (404, "door.route_unknown")),
            ("POST", "/v1/dispatch/a/canary", (404, "door.route_unknown")),
            ("GET", "/?canary=1", (400, "door.query_invalid")),
            ("GET", "/v1/records?canary=1", (400, "door.query_invalid")),
        ] {
            let answer = served.ask(method, path, &bearer(TOKEN), "").await;
            assert_eq!(answer.code(), (code.0, code.1.to_owned()), "{method} {path}");
            assert!(!answer.body.contains("canary") && !answer.head.contains("canary"));
        }
        served.close().await;
    });
}

#[test]
fn every_answer_may_load_nothing_and_is_kept_nowhere() {
    run(async {
        let served = Served::at_port().await;
        for path in ["/", "/v1/health", "/canary", "/login", "/healthz"] {
            for headers in ["", &bearer(TOKEN)] {
                let answer = served.ask("GET", path, headers, "").await;
                let policy = answer.header("content-security-policy").expect("a policy");
                assert!(policy.starts_with("default-src 'none'"), "{path}: {policy}");
                assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
                assert_eq!(answer.header("cache-control"), Some("no-store"));
                assert_eq!(answer.header("referrer-policy"), Some("no-referrer"));
                assert_eq!(answer.header("access-control-allow-origin"), None);
            }
        }
        served.close().await;
    });
}

#[test]
fn a_browser_that_showed_the_token_sees_pages_and_can_change_nothing() {
    run(async {
        let served = Served::at_port().await;
        served.failed("event-1").await;
        let first = served.ask("GET", "/", "", "").await;
        assert_eq!((first.status, first.header("location")), (303, Some("/login")));
        assert!(served.ask("GET", "/login", "", "").await.body.contains("name=\"token\""));
        let wrong = served.ask("POST", "/login", "", "token=canary-wrong-canary").await;
        assert_eq!((wrong.status, wrong.header("set-cookie")), (401, None));
        assert!(!wrong.body.contains("canary"));
        let right = served.ask("POST", "/login", "", &format!("token={TOKEN}")).await;
        assert_eq!((right.status, right.header("location")), (303, Some("/")));
        let cookie = right.header("set-cookie").expect("a session");
        assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"));
        assert!(!cookie.contains(TOKEN));
        let session = format!("Cookie: {}\r\n", cookie.split(';').next().expect("a pair"));
        for path in ["/", "/stuck", "/records/dispatch/event-1"] {
            assert_eq!(served.ask("GET", path, &session, "").await.status, 200, "{path}");
        }
        for path in ["/v1/overview", "/v1/records", "/metrics"] {
            assert_eq!(served.ask("GET", path, &session, "").await.status, 401, "{path}");
        }
        let asked = "{\"by\":\"a\",\"why\":\"b\"}";
        for (path, body) in [
            ("/v1/dispatch/event-1/requeue", asked),
            ("/v1/dispatch", &change("event-2")),
            ("/records/dispatch/event-1", ""),
            ("/", ""),
        ] {
            let answer = served.ask("POST", path, &session, body).await;
            assert_eq!(answer.code(), (401, "door.unauthorized".to_owned()), "{path}");
        }
        served.clock.set(1_800_000_000.0 + 12.0 * 3600.0);
        assert_eq!(served.ask("GET", "/", &session, "").await.status, 303, "it is over");
        served.close().await;
    });
}

#[test]
fn at_a_socket_of_its_owner_no_token_is_needed() {
    run(async {
        let (served, socket, _folder) = Served::at_socket().await;
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &std::fs::metadata(&socket).expect("it is there").permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(at(&socket, "POST", "/v1/dispatch", &change("event-1")).await.status, 201);
        assert_eq!(at(&socket, "GET", "/", "").await.status, 200);
        assert_eq!(at(&socket, "GET", "/login", "").await.header("location"), Some("/"));
        served.failed("event-2").await;
        served.clock.set(1_800_000_060.0); // what is stuck is looked for again after a while
        let overview = at(&socket, "GET", "/v1/overview", "").await.json();
        let action = overview["stuck"][0]["action"].as_str().expect("an action");
        assert!(action.starts_with("curl --unix-socket "), "{action}");
        served.close().await;
        assert!(!socket.exists(), "it is removed in the end");
    });
}

#[test]
fn a_body_over_the_limit_is_refused_and_nothing_is_registered() {
    run(async {
        let served = Served::at_port().await;
        let large = format!("{{\"canary\":\"{}\"}}", "x".repeat(4_000_000));
        let answer = served.post("/v1/dispatch", &large).await;
        assert_eq!(answer.code(), (413, "door.body_too_large".to_owned()));
        let login = format!("token={}", "x".repeat(20_000));
        assert_eq!(served.ask("POST", "/login", "", &login).await.status, 413);
        assert_eq!(served.get("/v1/overview").await.json()["journal"]["sequence"], 0);
        served.close().await;
    });
}

#[test]
fn a_door_on_an_address_needs_a_token_and_the_address_is_our_own() {
    run(async {
        let served = Served::at_port().await;
        for (address, token, invalid) in [
            ("127.0.0.1:0", None, DoorInvalid::TokenMissing),
            ("0.0.0.0:0", Some(TOKEN), DoorInvalid::NotLoopback),
        ] {
            let options = DoorOptions {
                destinations: Vec::new(),
                address: Address::Tcp(address.parse().expect("an address")),
                token: token.map(|token| Token::new(token).expect("it is one")),
                ceilings: leasehold::door::desk::Ceilings {
                    dispatch_max_attempts: 5,
                    delivery_max_attempts: 5,
                    source_max_attempts: 5,
                },
                activity: std::sync::Arc::clone(&served.activity),
                metrics: None,
                entropy: std::sync::Arc::new(leasehold::SystemEntropy),
            };
            let opened = Door::open(&served.engine, options).await;
            assert_eq!(opened.err(), Some(invalid));
        }
        served.close().await;
    });
}
