//! Why one record stands where it stands, read beside the writer.
//!
//! Owns the reading of the few streams that takes. Must not hold a rule: the explanations do.

use super::super::explain::Damage;
use super::super::states::covering;
use super::{Live, Outlook, state_of};
use leasehold_actors::control::PausedScope;
use leasehold_actors::explain::{
    Explains, Explanation, Situation, explain, explain_quarantined, situation,
};
use leasehold_actors::flows::all::{AllFlows, time_of};
use leasehold_actors::record::{State, stream_of};
use leasehold_actors::replay::ReplayError;
use leasehold_journal::{Entry, JournalError, Record, StreamId};

impl Live {
    /// Why one record stands where it stands; `None` for one that is not there. Costs its own events and
    /// those of the one other record that may matter, however large the journal is.
    pub(crate) fn explain<F: Explains>(
        &self,
        identity: &str,
        outlook: &Outlook,
        paused: Vec<PausedScope>,
    ) -> Result<Option<Explanation>, JournalError> {
        let (stream, mut flows) = (stream_of(F::TAG, identity), AllFlows::default());
        if let Some(Damage { sequence, code, since }) = self.replay(stream, &mut flows)? {
            let (id, place) = (Some(identity), &outlook.place);
            return Ok(Some(explain_quarantined::<F>(id, sequence, &code, since, place)));
        }
        let record = sound(&flows, stream).and_then(State::<F>::record);
        if let Some(other) = record.and_then(|record| F::other(&record.binding)) {
            // One that does not replay is told as such.
            self.replay(other, &mut flows)?;
        }
        let Some(state) = sound::<F>(&flows, stream) else { return Ok(None) };
        let situation = Situation { paused: covering(state, paused), ..situation(state, &flows) };
        Ok(explain(state, situation, &outlook.view::<F>()))
    }

    /// Replays one stream among those of all flows; answers where it stopped to replay.
    fn replay(
        &self,
        stream: StreamId,
        flows: &mut AllFlows,
    ) -> Result<Option<Damage>, JournalError> {
        let (mut since, mut damage) = (None, None);
        let mut note = |sequence: u64, since, error: ReplayError| {
            // The first one is what it was quarantined for.
            damage.get_or_insert(Damage {
                sequence: (sequence > 0).then_some(sequence),
                code: error.to_string(),
                since,
            });
        };
        match self.read(stream) {
            Ok((carried, records)) => {
                if let Some(entry) = carried
                    && let Some(Err(error)) = flows.carry(stream, Some(&entry.image))
                {
                    note(entry.tip.sequence, None, error);
                }
                for record in records {
                    match flows.apply(stream, Some(&record.body)) {
                        Some(Err(error)) => note(record.sequence, since, error),
                        Some(Ok(())) | None => since = time_of(stream, &record.body),
                    }
                }
            }
            Err(JournalError::Corrupt { sequence }) => {
                if let Some(Err(error)) = flows.apply(stream, None) {
                    note(sequence, None, error);
                }
            }
            Err(error) => return Err(error),
        }
        Ok(damage)
    }

    /// What is kept of a stream's archived events, and its others.
    pub(super) fn read(
        &self,
        stream: StreamId,
    ) -> Result<(Option<Entry>, Vec<Record>), JournalError> {
        Ok((self.reader.carried(stream)?, self.reader.read_stream(stream)?))
    }
}

/// The state of one record, where it replays.
fn sound<F: Explains>(flows: &AllFlows, stream: StreamId) -> Option<&State<F>> {
    F::records(flows).get(stream).and_then(state_of)
}
