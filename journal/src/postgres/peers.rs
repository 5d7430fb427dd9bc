//! The engines that share a journal.
//!
//! Owns this engine's name among them, and the count of those that showed themselves lately. It is a hint for
//! who starts with which records and how a side's limits are divided; who may do what is decided by the
//! journal alone.

use super::clock::ServerClock;
use super::link::{Link, connect, within};
use crate::error::JournalError;
use crate::store::Peers;
use deadpool_postgres::Pool;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use uuid::Uuid;

/// How often an engine shows itself.
const EVERY: Duration = Duration::from_secs(2);
/// How long it counts after that, in seconds.
const COUNTS_SECONDS: f64 = 7.0;

/// One engine among others.
pub(super) struct Membership {
    link: Weak<Link>,
    look: Arc<Look>,
}

/// What a look needs.
struct Look {
    pool: Pool,
    schema: Arc<str>,
    label: Option<String>,
    id: Uuid,
    /// Its place in the upper half, their count in the lower.
    seen: AtomicU64,
    clock: Arc<ServerClock>,
    /// Whether the engine has said goodbye.
    left: AtomicBool,
}

impl Membership {
    /// Shows the engine once, and from then on for as long as the link is there.
    pub(super) fn begin(
        link: &Arc<Link>,
        (schema, label): (Arc<str>, Option<String>),
        clock: Arc<ServerClock>,
    ) -> Result<Self, JournalError> {
        let look = Arc::new(Look {
            pool: link.pool().clone(),
            schema,
            label,
            id: Uuid::now_v7(),
            seen: AtomicU64::new(1),
            clock,
            left: AtomicBool::new(false),
        });
        let (first, shown) = (Arc::clone(&look), Arc::clone(&look));
        link.wait(async move { first.first().await })?;
        link.spawn(async move {
            let mut every = tokio::time::interval(EVERY);
            every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            loop {
                every.tick().await;
                if let Err(error) = shown.once().await {
                    tracing::debug!(code = error.code(), "the other engines cannot be seen");
                }
            }
        });
        Ok(Self { link: Arc::downgrade(link), look })
    }

    /// Asks now whether any other engine has shown itself lately.
    pub(super) fn look_for_others(&self) -> Result<bool, JournalError> {
        let link = self.link.upgrade().ok_or(JournalError::Unreachable)?;
        let look = Arc::clone(&self.look);
        link.wait(async move { look.once().await })?;
        Ok(self.peers().count > 1)
    }

    pub(super) fn peers(&self) -> Peers {
        let seen = self.look.seen.load(Ordering::Relaxed);
        let (place, count) = ((seen >> 32) as u32, (seen & u64::from(u32::MAX)) as u32);
        Peers { place, count: count.max(1) }
    }
}

impl Look {
    /// Enters this engine, and strikes out those that have not been seen for a day.
    async fn first(&self) -> Result<(), JournalError> {
        let connection = connect(&self.pool).await?;
        within(connection.execute(&self.enter(), &[&self.id, &self.label])).await?;
        let strike = format!(
            "DELETE FROM {}.engines WHERE seen_at < clock_timestamp() - interval '1 day'",
            self.schema
        );
        within(connection.execute(&strike, &[])).await?;
        self.once().await
    }

    fn enter(&self) -> String {
        format!(
            "INSERT INTO {}.engines (id, label, seen_at) VALUES ($1, $2, clock_timestamp())
             ON CONFLICT (id) DO NOTHING",
            self.schema
        )
    }

    /// Only a row that is there is touched: one that is struck out when the engine leaves stays so.
    async fn once(&self) -> Result<(), JournalError> {
        let connection = connect(&self.pool).await?;
        let show =
            format!("UPDATE {}.engines SET seen_at = clock_timestamp() WHERE id = $1", self.schema);
        let shown = within(connection.execute(&show, &[&self.id])).await?;
        // A database that was put back to an older state does not know this engine.
        if shown == 0 && !self.left.load(Ordering::Relaxed) {
            within(connection.execute(&self.enter(), &[&self.id, &self.label])).await?;
        }
        let others = format!(
            "SELECT id, extract(epoch FROM clock_timestamp())::double precision
             FROM {0}.engines
             WHERE seen_at > clock_timestamp() - make_interval(secs => $1) ORDER BY id",
            self.schema
        );
        let asked = self.clock.steady();
        let rows = within(connection.query(&others, &[&COUNTS_SECONDS])).await?;
        if let Some(row) = rows.first() {
            self.clock.sample(row.get(1), asked, self.clock.steady());
        }
        let place = rows.iter().position(|row| row.get::<_, Uuid>(0) == self.id).unwrap_or(0);
        self.seen.store((place as u64) << 32 | rows.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Membership {
    /// Whoever leaves says so, so that the others need not wait; a lost word costs them a few seconds.
    fn drop(&mut self) {
        self.look.left.store(true, Ordering::Relaxed);
        let Some(link) = self.link.upgrade() else { return };
        let look = Arc::clone(&self.look);
        let left = link.wait(async move {
            let leave = format!("DELETE FROM {}.engines WHERE id = $1", look.schema);
            within(connect(&look.pool).await?.execute(&leave, &[&look.id])).await
        });
        if left.is_err() {
            tracing::debug!("the other engines will see it themselves");
        }
    }
}
