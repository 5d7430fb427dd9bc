//! All four flows of a change: submitted, watched until the CMS is done, told to the receiver, watched until
//! that has acted. The other sides are a sandbox on this machine.

use leasehold::http::{
    CmsClient, CmsOptions, HmacSha256Signer, NoAuthHeaders, ReceiverClient, ReceiverOptions,
    StaticAuthHeader,
};
use leasehold::sandbox::{DEMO_KEY, DEMO_KEY_ID, Sandbox, SandboxOptions, receiver_digest};
use leasehold::{
    Delays, Destinations, DrainOptions, Engine, FlowDelays, HandOver, Limits, MemoryDisk, Pipeline,
    Token,
};
use std::error::Error;
use tokio::sync::watch;

const CHANGES: usize = 5;

fn clients(origin: &str) -> Result<(CmsClient, ReceiverClient), Box<dyn Error>> {
    let key_id = Token::new(DEMO_KEY_ID).ok_or("a key's id is a token")?;
    let signer = HmacSha256Signer::new(key_id, DEMO_KEY.to_vec().into()).ok_or("a key")?;
    // Without this only https is spoken.
    let cms = CmsOptions { allow_http_loopback: true, ..CmsOptions::new(origin) };
    let pinned = receiver_digest().ok_or("the sandbox has a digest")?;
    let mut receiver = ReceiverOptions::new(origin.to_owned(), pinned);
    receiver.allow_http_loopback = true;
    let header = StaticAuthHeader::new("Authorization".to_owned(), "Bearer demo".to_owned().into());
    Ok((CmsClient::new(&cms, signer, NoAuthHeaders)?, ReceiverClient::new(&receiver, header)?))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let sandbox = Sandbox::start(SandboxOptions::default()).await?;
    let (cms, receiver) = clients(&sandbox.origin())?;
    let pinned = receiver_digest().ok_or("the sandbox has a digest")?;

    // How often a change is asked about again; 30 seconds where nothing is said.
    let quick = Delays { poll_interval_seconds: 0.05, ..Delays::default() };
    let engine = Engine::in_memory(&MemoryDisk::new())
        .receiver_digest(pinned.to_string())
        .delays(FlowDelays { lifecycle: quick, processing: quick, ..FlowDelays::default() })
        .hand_over(HandOver {
            lifecycle_max_failures: Some(5),
            notification_max_attempts: Some(5),
            processing_max_failures: Some(5),
        })
        .open()
        .await?;
    for change in include_str!("changes.ndjson").lines().take(CHANGES) {
        engine.dispatch().enqueue(change, 5).await?;
    }

    let sides = Destinations::new(&engine, 64)?;
    let workers = |side| DrainOptions {
        in_flight: 4,
        lease_seconds: 600.0,
        worker: "example".to_owned(),
        destination: Some(side),
    };
    let to_cms = workers(sides.add("cms", Limits::default())?);
    let to_receiver = workers(sides.add("receiver", Limits::default())?);
    let (_stop, stopped) = watch::channel(false);
    let mut pipeline = Pipeline::new(&engine, stopped);
    // In the order in which they hand over.
    pipeline.add(engine.dispatch(), cms.clone(), &to_cms, |_| {});
    pipeline.add(engine.lifecycle(), cms, &to_cms, |_| {});
    pipeline.add(engine.notification(), receiver.clone(), &to_receiver, |_| {});
    pipeline.add(engine.processing(), receiver, &to_receiver, |it| println!("{}", it.status));
    pipeline.finish().await?;

    for counts in [
        engine.dispatch().health().await?.counts,
        engine.lifecycle().health().await?.counts,
        engine.notification().health().await?.counts,
        engine.processing().health().await?.counts,
    ] {
        println!("{counts:?}");
        assert_eq!(counts.values().sum::<u64>(), CHANGES as u64, "every change is in every flow");
    }
    assert_eq!(engine.processing().health().await?.counts.get("succeeded"), Some(&5));
    engine.close().await;
    sandbox.stop().await;
    Ok(())
}

#[test]
fn every_change_comes_through_all_flows() {
    main().expect("it runs to its end");
}
