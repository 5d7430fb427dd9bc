//! Why one record stands where it stands, read beside the writer.
//!
//! Owns the reading of the few streams that takes. Must not hold a rule: the explanations do.

use super::super::explain::Damage;
use super::super::states::covering;
use super::{Live, Outlook};
use leasehold_actors::codec;
use leasehold_actors::control::PausedScope;
use leasehold_actors::explain::{
    Brought, Explains, Explanation, Situation, explain, explain_quarantined, situation,
};
use leasehold_actors::flows::all::AllFlows;
use leasehold_actors::record::{State, stream_of};
use leasehold_actors::replay::{ReplayError, Replayed};
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
        let state = match F::records(&flows).get(stream) {
            Some(Replayed::Sound(state)) => state,
            Some(Replayed::Quarantined) => {
                let (id, place) = (Some(identity), &outlook.place);
                let Damage { sequence, code, since } = Damage::archived();
                return Ok(Some(explain_quarantined::<F>(id, sequence, &code, since, place)));
            }
            None => return Ok(None),
        };
        let situation = Situation { paused: covering(state, paused), ..situation(state, &flows) };
        let explained = explain(state, situation, &outlook.view::<F>());
        let imported = self.brought::<F>(stream)?;
        Ok(explained.map(|told| Explanation { imported, ..told }))
    }

    /// How the record was brought here, where it was, and that is not archived.
    fn brought<F: Explains>(&self, stream: StreamId) -> Result<Option<Brought>, JournalError> {
        let (_, records) = self.read(stream)?;
        let event = records.first().and_then(|first| codec::decode::<F>(&first.body).ok());
        Ok(event.and_then(|event| Brought::of(&event)))
    }

    /// Replays one stream among those of all flows; answers where it stopped to replay, if that was here.
    fn replay(
        &self,
        stream: StreamId,
        flows: &mut AllFlows,
    ) -> Result<Option<Damage>, JournalError> {
        let mut damage = None;
        let mut note = |sequence: u64, since, applied: Option<Result<(), ReplayError>>| {
            if let Some(Err(error)) = applied {
                let at = Damage::at(sequence, error, since);
                // The first one is what it was quarantined for. Of some the place is not known.
                damage.get_or_insert(Damage { sequence: at.sequence.filter(|at| *at > 0), ..at });
            }
        };
        match self.read(stream) {
            Ok((carried, records)) => {
                if let Some(entry) = carried {
                    note(entry.tip.sequence, None, flows.carry(stream, Some(&entry.image)));
                }
                for record in records {
                    let since = flows.latest_after(stream, None);
                    note(record.sequence, since, flows.apply(stream, Some(&record.body)));
                }
            }
            Err(JournalError::Corrupt { sequence }) => {
                note(sequence, None, flows.apply(stream, None));
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
    F::records(flows).get(stream).and_then(Replayed::state)
}
