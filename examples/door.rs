//! A door in a host of one's own: the engine over HTTP, with metrics and a dashboard, on this machine alone.

use leasehold::door::desk::{Activity, Ceilings};
use leasehold::door::session::Token;
use leasehold::door::{Address, Door, DoorOptions};
use leasehold::metrics::Prometheus;
use leasehold::{Engine, MemoryDisk, SystemEntropy};
use reqwest::StatusCode;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let metrics = Prometheus::install();
    let engine = Engine::in_memory(&MemoryDisk::new()).open().await?;
    // Not a secret: a host reads its own from a file.
    let token = "an-example-token-and-no-secret";
    let door = Door::open(
        &engine,
        DoorOptions {
            address: Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            token: Some(Token::new(token)?),
            ceilings: Ceilings {
                dispatch_max_attempts: 5,
                delivery_max_attempts: 5,
                source_max_attempts: 5,
            },
            // Workers that tell it what they do fill the dashboard's bars.
            activity: Arc::new(Activity::new(&engine)),
            destinations: Vec::new(),
            metrics,
            entropy: Arc::new(SystemEntropy),
        },
    )
    .await?;
    let origin = format!("http://{}", door.address().ok_or("it is on an address")?);
    println!("listening on {origin}");

    let caller = reqwest::Client::builder().no_proxy().build()?;
    let change = include_str!("changes.ndjson").lines().next().ok_or("an example")?;
    let dispatch = format!("{origin}/v1/dispatch");
    let refused = caller.post(&dispatch).body(change).send().await?;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    for expected in [StatusCode::CREATED, StatusCode::OK] {
        let registered = caller.post(&dispatch).bearer_auth(token).body(change).send().await?;
        assert_eq!(registered.status(), expected, "the second time it is known");
        println!("{}", registered.text().await?);
    }
    for path in ["/v1/dispatch/help-0001", "/v1/health", "/metrics"] {
        let answer = caller.get(format!("{origin}{path}")).bearer_auth(token).send().await?;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        println!("{}", answer.text().await?);
    }
    assert_eq!(caller.get(format!("{origin}/healthz")).send().await?.status(), StatusCode::OK);

    door.close().await;
    engine.close().await;
    Ok(())
}

#[test]
fn the_door_answers_who_has_the_token() {
    main().expect("it runs to its end");
}
