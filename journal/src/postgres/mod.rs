//! The medium on a PostgreSQL server, for engines that share one journal.
//!
//! Owns the order of writers, and what is asked of the server for each call of [`Medium`]. Must not know what is
//! in a frame. What follows from what, and what was measured, is in `docs/scaling.md`:
//!
//! * One row, `head`, says where the journal ends. A batch is written by one statement that moves this row
//!   from the head it goes on from to its own, and writes nothing where the row says something else. So no
//!   two engines ever write behind the same head, sequence numbers have no gaps, and whoever reads by them
//!   misses nothing: there is no row that commits late.
//! * That order costs one row lock for the length of one commit, and a commit holds many records. Whoever
//!   was overtaken twice takes the lock first and is served in turn.
//! * An answer that got lost is asked for: when the server is back, the frame behind the head is ours or it
//!   is not.
//! * Nothing is taken from a superuser, an extension or a session: a managed server will do.

mod clock;
mod link;
mod peers;
mod place;
mod retention;
mod schema;
mod writing;

pub use place::PostgresPlace;
pub use schema::VERSION;

use crate::anchor::Anchor;
use crate::base::Base;
use crate::chain::{Digest, Head, JournalId};
use crate::checkpoint::{Draft, Left};
use crate::error::JournalError;
use crate::medium::{Anchors, Batch, Fill, Medium, Step, Written};
use crate::record::StreamId;
use crate::store::Peers;
use clock::ServerClock;
use link::{Link, connect};
use peers::Membership;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tokio_postgres::types::ToSql;
use writing::Turn;

/// Frames that are fetched at once when they are read one after another.
const AHEAD_MAX: i64 = 256;

/// A journal on a server, open.
pub struct PostgresMedium {
    /// Dropped first: it says goodbye over the link.
    membership: Option<Membership>,
    link: Arc<Link>,
    schema: Arc<str>,
    id: OnceLock<JournalId>,
    ahead: Mutex<Ahead>,
    turn: Turn,
    clock: Arc<ServerClock>,
}

/// Frames that were fetched before they were asked for.
#[derive(Default)]
struct Ahead {
    /// The rows hold every frame from this number up to the last of them.
    from: u64,
    rows: VecDeque<(u64, Vec<u8>)>,
    /// How many to fetch next time.
    next: i64,
}

impl Ahead {
    /// The first frame from this number on, if it was fetched.
    fn take(&mut self, sequence: u64) -> Option<(u64, Vec<u8>)> {
        if sequence < self.from {
            return None;
        }
        while self.rows.front().is_some_and(|(first, _)| *first < sequence) {
            self.rows.pop_front();
        }
        self.from = sequence;
        self.rows.pop_front()
    }
}

impl PostgresMedium {
    /// Opens the journal for writing, or makes it, and shows itself to the other engines.
    ///
    /// # Errors
    /// [`JournalError::Missing`] without a journal where none is to be made, [`JournalError::Newer`],
    /// [`JournalError::Credentials`], [`JournalError::Unreachable`], [`JournalError::ReadOnly`].
    pub fn open(place: &PostgresPlace, create: bool) -> Result<Self, JournalError> {
        Self::open_as(place, create, VERSION)
    }

    /// The same as a library that knows the tables up to this version only.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_as(place: &PostgresPlace, create: bool, known: u16) -> Result<Self, JournalError> {
        let mut medium = Self::connected(place)?;
        let (schema, pool) = (Arc::clone(&medium.schema), medium.link.pool().clone());
        medium.link.wait(async move {
            let mut connection = connect(&pool).await?;
            schema::migrate(&mut connection, &schema, (create, known)).await
        })?;
        if known >= 2 {
            let (schema, clock) = (Arc::clone(&medium.schema), Arc::clone(&medium.clock));
            let label = place.label.clone();
            medium.membership = Some(Membership::begin(&medium.link, (schema, label), clock)?);
        }
        Ok(medium)
    }

    /// Opens the journal for reading; nobody is told and nothing is made.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_to_read(place: &PostgresPlace) -> Result<Self, JournalError> {
        let medium = Self::connected(place)?;
        let (schema, pool) = (Arc::clone(&medium.schema), medium.link.pool().clone());
        let found = medium
            .link
            .wait(async move { schema::version(&connect(&pool).await?, &schema, VERSION).await })?;
        found.map(|_| medium).ok_or(JournalError::Missing)
    }

    fn connected(place: &PostgresPlace) -> Result<Self, JournalError> {
        Ok(Self {
            link: Arc::new(Link::new(place)?),
            schema: place.schema.as_str().into(),
            id: OnceLock::new(),
            ahead: Mutex::new(Ahead::default()),
            turn: Turn::default(),
            clock: Arc::new(ServerClock::new()),
            membership: None,
        })
    }

    /// The rows that a query answers; `SCHEMA` in it stands for the schema's name.
    fn rows(
        &self,
        query: &str,
        parameters: Vec<Box<dyn ToSql + Sync + Send>>,
    ) -> Result<Vec<tokio_postgres::Row>, JournalError> {
        let query = query.replace("SCHEMA", &self.schema);
        self.link.ask(move |connection| async move {
            let statement = connection.prepare_cached(&query).await?;
            let given: Vec<&(dyn ToSql + Sync)> = parameters
                .iter()
                .map(|parameter| -> &(dyn ToSql + Sync) { parameter.as_ref() })
                .collect();
            connection.query(&statement, &given).await
        })
    }

    /// The head, and the base's bytes; `None` before the journal is made.
    fn head_row(&self) -> Result<Option<HeadRow>, JournalError> {
        let rows = self.rows("SELECT journal, sequence, hash, base FROM SCHEMA.head", Vec::new());
        let rows = match rows {
            Ok(rows) => rows,
            Err(JournalError::Missing) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(row) = rows.first() else { return Ok(None) };
        let damaged = || JournalError::Corrupt { sequence: 0 };
        let id: Vec<u8> = row.get(0);
        let hash: Vec<u8> = row.get(2);
        let id = JournalId(id.try_into().map_err(|_| damaged())?);
        let hash = Digest(hash.try_into().map_err(|_| damaged())?);
        let sequence = u64::try_from(row.get::<_, i64>(1)).map_err(|_| damaged())?;
        Ok(Some((id, Head { sequence, hash }, row.get(3))))
    }

    fn frames(&self, query: &str, sequence: u64, limit: i64) -> Result<Rows, JournalError> {
        let rows = self.rows(query, vec![Box::new(number(sequence)), Box::new(limit)])?;
        rows.iter()
            .map(|row| {
                let first = u64::try_from(row.get::<_, i64>(0));
                Ok((first.map_err(|_| JournalError::Corrupt { sequence: 0 })?, row.get(1)))
            })
            .collect()
    }
}

type Rows = VecDeque<(u64, Vec<u8>)>;
/// The journal, where it ends, and the base's bytes.
type HeadRow = (JournalId, Head, Option<Vec<u8>>);

/// A sequence number as the server keeps it; what is over its largest is as good as that.
fn number(sequence: u64) -> i64 {
    i64::try_from(sequence).unwrap_or(i64::MAX)
}

impl std::fmt::Debug for PostgresMedium {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresMedium").finish_non_exhaustive()
    }
}

impl Medium for PostgresMedium {
    fn journal_id(&self) -> Result<Option<JournalId>, JournalError> {
        if let Some(id) = self.id.get() {
            return Ok(Some(*id));
        }
        let found = self.head_row()?.map(|(id, _, _)| id);
        Ok(found.map(|id| *self.id.get_or_init(|| id)))
    }

    fn initialise(&self, id: JournalId) -> Result<(), JournalError> {
        let genesis = Head::genesis(id);
        let insert = "INSERT INTO SCHEMA.head (journal, sequence, hash) VALUES ($1, 0, $2)
            ON CONFLICT DO NOTHING";
        let parameters: Vec<Box<dyn ToSql + Sync + Send>> =
            vec![Box::new(id.0.to_vec()), Box::new(genesis.hash.0.to_vec())];
        self.rows(insert, parameters).map(drop)
    }

    fn write(&self, batch: Batch) -> Result<(), JournalError> {
        // Only ever behind a head: see [`Self::step`].
        drop(batch);
        Err(JournalError::Storage)
    }

    fn sync(&self) -> Result<(), JournalError> {
        Ok(()) // a commit is durable when it is answered
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn step(&self, step: Step, batch: Batch) -> Result<Written, JournalError> {
        let batch = writing::Rows::of(step, batch);
        self.turn.write(&self.link, &self.schema, &self.clock, batch)
    }

    fn take_turn(&self) -> Result<(), JournalError> {
        self.turn.take(&self.link, &self.schema)
    }

    fn wait_until_reachable(&self) -> Result<(), JournalError> {
        writing::wait_until_reachable(&self.link)
    }

    fn pass(&self) {
        self.turn.pass();
    }

    fn peers(&self) -> Peers {
        self.membership.as_ref().map_or(Peers::ALONE, Membership::peers)
    }

    fn server_seconds(&self) -> Option<f64> {
        self.clock.seconds()
    }

    fn frame_at_or_before(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        let query = "SELECT first, bytes FROM SCHEMA.frames WHERE first <= $1
            ORDER BY first DESC LIMIT $2";
        Ok(self.frames(query, sequence, 1)?.pop_front())
    }

    fn frame_at_or_after(&self, sequence: u64) -> Result<Option<(u64, Vec<u8>)>, JournalError> {
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        let follows = sequence >= ahead.from;
        if let Some(found) = ahead.take(sequence) {
            return Ok(Some(found));
        }
        // Whoever reads on from where the last one ended is likely to read on.
        let limit = if follows { (ahead.next * 2).clamp(1, AHEAD_MAX) } else { 1 };
        let query = "SELECT first, bytes FROM SCHEMA.frames WHERE first >= $1
            ORDER BY first LIMIT $2";
        let rows = self.frames(query, sequence, limit)?;
        let next = if rows.is_empty() { 1 } else { limit };
        *ahead = Ahead { from: sequence, rows, next };
        Ok(ahead.take(sequence))
    }

    fn chunk(&self, hash: &Digest) -> Result<Option<Vec<u8>>, JournalError> {
        let query = "SELECT bytes FROM SCHEMA.chunks WHERE hash = $1";
        let rows = self.rows(query, vec![Box::new(hash.0.to_vec())])?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    fn base(&self) -> Result<Option<Base>, JournalError> {
        let base = self.head_row()?.and_then(|(_, _, base)| base);
        let damaged = JournalError::Corrupt { sequence: 0 };
        base.map(|bytes| Base::decode(&bytes).ok_or(damaged)).transpose()
    }

    fn base_entry(&self, stream: StreamId) -> Result<Option<Vec<u8>>, JournalError> {
        let query = "SELECT bytes FROM SCHEMA.entries WHERE stream = $1";
        let rows = self.rows(query, vec![Box::new(stream.0.to_vec())])?;
        Ok(rows.first().map(|row| row.get(0)))
    }

    fn base_entry_after(
        &self,
        stream: Option<StreamId>,
    ) -> Result<Option<(StreamId, Vec<u8>)>, JournalError> {
        let after = stream.map_or_else(Vec::new, |stream| stream.0.to_vec());
        let query = "SELECT stream, bytes FROM SCHEMA.entries WHERE stream > $1
            ORDER BY stream LIMIT 1";
        let rows = self.rows(query, vec![Box::new(after)])?;
        let Some(row) = rows.first() else { return Ok(None) };
        let stream: Vec<u8> = row.get(0);
        let stream = stream.try_into().map_err(|_| JournalError::Corrupt { sequence: 0 })?;
        Ok(Some((StreamId(stream), row.get(1))))
    }

    fn prepare_successor(&self, fill: &mut Fill<'_>) -> Result<(), JournalError> {
        retention::prepare(&self.link, &self.schema, &self.turn, fill)
    }

    fn succeed(self) -> Result<(), JournalError> {
        let others = self.membership.as_ref().map(Membership::look_for_others);
        if others.transpose()?.unwrap_or(false) {
            return Err(JournalError::Locked);
        }
        retention::succeed(&self.link, &self.schema, &self.turn)
    }

    fn anchors(&self) -> Result<Anchors, JournalError> {
        let inner = self.head_row()?.map(|(journal, head, _)| Anchor { journal, head });
        Ok(Anchors { inner, outer: None, damaged: 0 })
    }

    fn set_anchor(&self, _anchor: Anchor, _sync: bool) -> Result<(), JournalError> {
        Ok(()) // the head is one, and moves with the frames
    }

    fn checkpoint(&self) -> Result<Option<Left>, JournalError> {
        Ok(None)
    }

    fn remove_checkpoint(&self) -> Result<(), JournalError> {
        Ok(())
    }

    fn leave_checkpoint(&self, _draft: Draft) -> Result<(), JournalError> {
        Ok(()) // others may go on writing
    }

    fn disk_bytes(&self) -> Result<u64, JournalError> {
        let query = "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
            WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'";
        let rows = self.rows(query, vec![Box::new(self.schema.to_string())])?;
        let bytes: i64 = rows.first().map_or(0, |row| row.get(0));
        Ok(u64::try_from(bytes).unwrap_or(0))
    }
}
