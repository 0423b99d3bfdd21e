//! The index of a build side, and the probe batches that it makes ready.

use datafusion::common::{Result, exec_err, internal_err};

use super::predicate::EditPredicate;
use super::texts::{Families, Texts};
use super::tiles::{Sides, Tested, Tiles, Work};
use crate::engine::{BuildContext, Cancel, Counts, Cursor, Index, KeyColumn, Limit, Pairs, PreparedProbe, Probe};
use crate::measure::EditMeasure;

/// A build side's strings, ready for probing with one predicate.
#[derive(Debug)]
pub struct EditIndex {
    predicate: EditPredicate,
    own: bool,
    with_bigrams: bool,
    texts: Texts,
    families: Families,
    tiles: Tiles,
}

/// From this mean length on, bigrams tell strings apart better than characters do.
const LONG_ENOUGH_FOR_BIGRAMS: usize = 12;

impl EditIndex {
    /// Copies the strings of `keys` in order and signs them.
    ///
    /// # Errors
    /// Keys that are no strings, a refused reservation, a cancelled build.
    pub fn try_new(predicate: EditPredicate, keys: &KeyColumn, context: &BuildContext<'_>) -> Result<Self> {
        let BuildContext { threads, own, cancel, reserve, .. } = *context;
        let with_bigrams = !matches!(predicate.measure, EditMeasure::Jaro | EditMeasure::JaroWinkler);
        let texts = Texts::try_new(&predicate, with_bigrams, keys, threads, cancel, reserve)?;
        if cancel.is_cancelled() {
            return exec_err!("the query was cancelled");
        }
        reserve(Tiles::size(texts.len()))?;
        let characters: usize = texts.lengths.iter().map(|&l| l as usize).sum();
        let long = characters >= LONG_ENOUGH_FOR_BIGRAMS * texts.len();
        let tested = if with_bigrams && long { Tested::Bigrams } else { Tested::Characters };
        let (families, tiles) = (Families::of(&texts), Tiles::build(&texts, tested));
        Ok(Self { predicate, own, with_bigrams, texts, families, tiles })
    }

    fn sides<'a>(&'a self, probe: Probe<'a>) -> Result<Sides<'a>> {
        let probe = match probe {
            Probe::Own if self.own => &self.texts,
            Probe::Batch(batch) if !self.own => match batch.as_any().downcast_ref::<PreparedTexts>() {
                Some(prepared) => &prepared.0,
                None => return internal_err!("an edit index was given a probe batch that it did not prepare"),
            },
            _ => return internal_err!("an edit index was built for the other kind of probe"),
        };
        let Self { predicate, texts, families, own, .. } = self;
        Ok(Sides { predicate, build: texts, families, probe, own: *own })
    }
}

impl Index for EditIndex {
    fn describe(&self) -> String {
        self.tiles.describe()
    }

    fn memory(&self) -> usize {
        self.texts.memory() + self.families.memory() + self.tiles.memory()
    }

    fn unmatchable(&self) -> usize {
        self.texts.unmatchable
    }

    fn own_len(&self) -> usize {
        self.texts.len()
    }

    fn prepare(&self, keys: &KeyColumn) -> Result<Box<dyn PreparedProbe>> {
        if self.own {
            return internal_err!("an edit index was built for a self-join and given another input");
        }
        let texts = Texts::try_new(&self.predicate, self.with_bigrams, keys, 1, &Cancel::default(), &|_| Ok(()))?;
        Ok(Box::new(PreparedTexts(texts)))
    }

    fn probe(
        &self,
        probe: Probe<'_>,
        cursor: &mut Cursor,
        limit: Limit,
        cancel: &Cancel,
        out: &mut Pairs,
    ) -> Result<Counts> {
        let sides = self.sides(probe)?;
        let mut work = Work::new(limit, cancel, out);
        self.tiles.probe(&sides, cursor, &mut work);
        Ok(Counts { matched: work.matched(), ..work.counts })
    }
}

/// A probe batch in the order of the index.
struct PreparedTexts(Texts);

impl PreparedProbe for PreparedTexts {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn unmatchable(&self) -> usize {
        self.0.unmatchable
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
