//! Pausing and resuming: a flow, a site in all flows, or every flow that calls one side.
//!
//! What is paused is still registered and read; it is only given to no worker. A pause is an event in the
//! journal, with who and why, and outlives the engine.

use leasehold::{Engine, MemoryDisk, Scope};
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let disk = MemoryDisk::new();
    let engine = Engine::in_memory(&disk).open().await?;
    let cms = Scope::new("destination/cms").ok_or("there is such a side")?;
    let site = Scope::new("site/pebble-help").ok_or("an id is a token")?;
    engine.pause(cms.clone(), "maria", "the CMS is being moved").await?;
    engine.pause(site.clone(), "maria", "its texts are being reviewed").await?;
    let again = engine.pause(cms.clone(), "tom", "did not know").await?;
    assert!(!again.changed, "it was paused already");

    for change in include_str!("changes.ndjson").lines().take(2) {
        engine.dispatch().enqueue(change, 5).await?;
    }
    assert!(engine.dispatch().claim("worker-1", 600.0).await?.is_none(), "nothing is given out");
    engine.close().await;

    // The next life knows it too.
    let engine = Engine::in_memory(&disk).open().await?;
    for paused in engine.paused() {
        println!("{}", serde_json::to_string(&paused)?);
    }
    assert_eq!(engine.paused().len(), 2);
    engine.resume(cms, "maria", "it has moved").await?;
    let claim = engine.dispatch().claim("worker-1", 600.0).await?.ok_or("one is due")?;
    println!("given out: {}", serde_json::to_string(&claim)?);
    assert_eq!(claim.request().event_id.as_str(), "lib-0001", "the other site still rests");
    engine.dispatch().release(&claim).await?;

    engine.resume(site, "maria", "reviewed").await?;
    assert!(engine.paused().is_empty());
    let claim = engine.dispatch().claim("worker-1", 600.0).await?.ok_or("one is due")?;
    println!("given out: {}", serde_json::to_string(&claim)?);
    engine.dispatch().release(&claim).await?;
    engine.close().await;
    Ok(())
}

#[test]
fn what_is_paused_rests_until_it_is_resumed() {
    main().expect("it runs to its end");
}
