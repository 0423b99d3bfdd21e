//! The columns of one side in the form in which pairs of rows are decided: any atom for any pair.

use std::sync::Arc;

use crate::error::{Result, internal_err};
use arrow::array::ArrayRef;
use arrow::buffer::BooleanBuffer;

use super::compact::keep;
use super::prefilter::{Lanes, MaxDifferences};
use super::row_filters::{EitherPassing, Equal, Meeting, Passing};
use super::sets::{SetColumn, SetDecider};
use super::strings::{EditDecider, StringColumn};
use super::vectors::{VectorColumn, VectorDecider};
use crate::atoms::{AtomColumn, AtomCondition, AtomRows, RuleRows, SideColumns, Span};
use crate::condition::Condition;
use crate::equality::Codes;
use crate::parallel::{each_in_turn, in_turn, threads_within};
use crate::sets::{Dictionary, SetPredicate};
use crate::stored::{Sink, Source, Store, Stored};
use crate::strings::EditPredicate;
use crate::{BuildContext, ColumnPair, KeyColumn, Pairs, PrepareContext, RowPair};
use similarity_measures::Tokenizer;

/// A key, made ready for a family of measures.
#[derive(Debug)]
enum Key {
    Texts(StringColumn),
    Sets(SetColumn),
    Vectors(VectorColumn),
}

impl Store for Key {
    fn store(&self, sink: &mut Sink<'_>) -> Result<()> {
        match self {
            Self::Texts(texts) => texts.store(sink),
            Self::Sets(sets) => sets.store(sink),
            Self::Vectors(vectors) => vectors.store(sink),
        }
    }
}

/// The columns of one side, ready to be compared pair by pair.
#[derive(Debug)]
pub struct Columns {
    /// How many rows there are.
    pub rows: usize,
    /// One column an atom.
    pub atoms: Vec<AtomColumn>,
    /// For each atom of a similarity, its key; keys of the same family are shared.
    keys: Vec<Option<Arc<Key>>>,
}

/// How all atoms are decided.
#[derive(Debug)]
pub struct AtomDeciders {
    /// Conditions of the atoms.
    pub conditions: Vec<AtomCondition>,
    deciders: Vec<PairDecider>,
}

/// The atoms of a build side: how each is decided, and its column.
#[derive(Debug, Clone, Copy)]
pub struct BuildAtoms<'a> {
    /// Deciders of the atoms.
    pub deciders: &'a AtomDeciders,
    /// Columns of the build side.
    pub columns: &'a Columns,
}

#[derive(Debug)]
enum PairDecider {
    Codes,
    Band,
    Bits,
    BitsOfEither,
    Edit(EditDecider),
    Set(SetDecider, Tokenizer, Arc<Dictionary>),
    /// Vector condition, with the length of the build side's vectors.
    Vector(VectorDecider, Option<usize>),
    Condition,
}

impl PairDecider {
    /// The decider of a condition on a key of the build side, whose tokens are those of `dictionary`.
    fn of(condition: Condition, key: &Key, dictionary: &Arc<Dictionary>) -> Self {
        match condition {
            Condition::Edit { measure, bounds } => Self::Edit(EditDecider::new(EditPredicate { measure, bounds })),
            Condition::Set { tokenizer, measure, bounds } => {
                let condition = SetDecider::new(SetPredicate { measure, bounds });
                Self::Set(condition, tokenizer, Arc::clone(dictionary))
            }
            Condition::Vector(condition) => {
                let dimension = match key {
                    Key::Vectors(vectors) => vectors.dimension(),
                    Key::Texts(_) | Key::Sets(_) => None,
                };
                Self::Vector(VectorDecider::new(condition), dimension)
            }
        }
    }
}

/// What a key was made ready for.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Family {
    Texts,
    Sets(Tokenizer),
    Vectors,
}

/// Every key with each family of measures that reads it.
fn wanted(conditions: &[AtomCondition]) -> Vec<(usize, Family)> {
    let mut wanted = Vec::new();
    for read in conditions.iter().filter_map(family_of) {
        if !wanted.contains(&read) {
            wanted.push(read);
        }
    }
    wanted
}

/// The key of an atom with the family of its measure, where it is a similarity.
fn family_of(condition: &AtomCondition) -> Option<(usize, Family)> {
    match *condition {
        AtomCondition::Similarity { key, condition } => Some((key, family(condition))),
        _ => None,
    }
}

fn family(condition: Condition) -> Family {
    match condition {
        Condition::Edit { .. } => Family::Texts,
        Condition::Set { tokenizer, .. } => Family::Sets(tokenizer),
        Condition::Vector(_) => Family::Vectors,
    }
}

impl AtomDeciders {
    /// The deciders of `conditions`, and the columns of the build side.
    pub fn build(
        conditions: Vec<AtomCondition>,
        side: SideColumns,
        context: &BuildContext<'_>,
    ) -> Result<(Self, Columns)> {
        let known = wanted(&conditions);
        let of_key = BuildContext { threads: threads_within(known.len(), context.threads), ..*context };
        let built = in_turn(known.len(), context.threads, |at| match side.keys.get(known[at].0) {
            Some(values) => build_key(known[at].1, values, &of_key),
            None => internal_err!("an atom names a missing key"),
        })?;
        let built: Vec<_> = built.into_iter().map(|(column, words)| (Arc::new(column), Arc::new(words))).collect();
        let mut deciders = Vec::with_capacity(conditions.len());
        let mut keys = Vec::with_capacity(conditions.len());
        for atom in &conditions {
            let AtomCondition::Similarity { key, condition } = *atom else {
                keys.push(None);
                deciders.push(match atom {
                    AtomCondition::Equality => PairDecider::Codes,
                    AtomCondition::Band => PairDecider::Band,
                    AtomCondition::OneSided => PairDecider::Bits,
                    AtomCondition::EitherSide => PairDecider::BitsOfEither,
                    _ => PairDecider::Condition,
                });
                continue;
            };
            let at = known.iter().position(|known| *known == (key, family(condition)));
            let Some((column, dictionary)) = at.map(|at| &built[at]) else {
                return internal_err!("a key was not built");
            };
            keys.push(Some(Arc::clone(column)));
            deciders.push(PairDecider::of(condition, column, dictionary));
        }
        Ok((Self { conditions, deciders }, Columns { rows: side.rows, atoms: side.atoms, keys }))
    }

    /// Writes the columns of a build side that has a single similarity, and its tokens.
    ///
    /// # Errors
    /// Other columns, and whatever the sink fails with.
    pub fn store_only(&self, columns: &Columns, sink: &mut Sink<'_>) -> Result<()> {
        columns.rows.store(sink)?;
        match (self.deciders.as_slice(), columns.keys.as_slice()) {
            ([PairDecider::Set(_, _, dictionary)], [Some(key)]) => {
                dictionary.store(sink)?;
                key.store(sink)
            }
            ([_], [Some(key)]) => key.store(sink),
            _ => internal_err!("several conditions of small groups were to be stored"),
        }
    }

    /// Reads what [`store_only`](Self::store_only) has written of the same condition.
    ///
    /// # Errors
    /// Bytes that are no such columns.
    pub fn load_only(condition: Condition, source: &mut Source<'_>, threads: usize) -> Result<(Self, Columns)> {
        let rows = usize::load(source)?;
        let dictionary = match condition {
            Condition::Set { .. } => Dictionary::load(source, threads)?,
            Condition::Edit { .. } | Condition::Vector(_) => Dictionary::default(),
        };
        let key = match condition {
            Condition::Edit { .. } => Key::Texts(StringColumn::load(source, threads)?),
            Condition::Set { .. } => Key::Sets(Stored::load(source)?),
            Condition::Vector(_) => Key::Vectors(Stored::load(source)?),
        };
        let deciders = vec![PairDecider::of(condition, &key, &Arc::new(dictionary))];
        let conditions = vec![AtomCondition::Similarity { key: 0, condition }];
        let columns = Columns { rows, atoms: vec![AtomColumn::None], keys: vec![Some(Arc::new(key))] };
        Ok((Self { conditions, deciders }, columns))
    }

    /// The columns of a probe side.
    pub fn prepare(&self, side: SideColumns, context: &PrepareContext<'_>) -> Result<Columns> {
        let known = wanted(&self.conditions);
        let within = PrepareContext { threads: threads_within(known.len(), context.threads), ..*context };
        let built = in_turn(known.len(), context.threads, |at| {
            let (key, family) = known[at];
            let Some(values) = side.keys.get(key) else { return internal_err!("an atom names a missing key") };
            let asks = |condition: &AtomCondition| family_of(condition) == Some((key, family));
            let pair_decider = self.conditions.iter().position(asks).map(|atom| &self.deciders[atom]);
            Ok(Arc::new(match pair_decider {
                Some(PairDecider::Set(_, tokenizer, dictionary)) => {
                    let keys = KeyColumn { values: Arc::clone(values), groups: None };
                    Key::Sets(SetColumn::probe(*tokenizer, &keys, dictionary, &within)?)
                }
                Some(PairDecider::Vector(_, dimension)) => Key::Vectors(VectorColumn::probe(values, *dimension)?),
                _ => Key::Texts(StringColumn::try_new(values, within.threads)?),
            }))
        })?;
        let column = |condition| {
            let at = known.iter().position(|known| Some(*known) == family_of(condition));
            at.map(|at| Arc::clone(&built[at]))
        };
        Ok(Columns { rows: side.rows, atoms: side.atoms, keys: self.conditions.iter().map(column).collect() })
    }

    /// The pairs among `selected` places of `block` that pass `atom`, in order, appended to `passed`.
    ///
    /// Must not be asked of a condition that the driver decides, nor of codes that were not
    /// [fetched](Columns::fetch_codes).
    pub fn select(
        &self,
        atom: usize,
        columns: ColumnPair<'_, Columns>,
        block: &Pairs,
        selected: &[u16],
        stop: &dyn Fn() -> bool,
        passed: &mut Vec<u16>,
    ) {
        let ColumnPair { build, probe } = columns;
        match (&self.deciders[atom], &build.atoms[atom], &probe.atoms[atom]) {
            (PairDecider::Codes, AtomColumn::Codes(left), AtomColumn::Codes(right)) => {
                keep(selected, passed, &Equal { left: left.fetched(), right: right.fetched(), block });
            }
            (PairDecider::Band, AtomColumn::Band(build), AtomColumn::Band(probe)) => {
                keep(selected, passed, &Meeting { places: &build.places, accepted: &probe.accepted, block });
            }
            // a side compared with itself, for a sample, has the bits on both
            (PairDecider::Bits, AtomColumn::Bits(bits), _) => {
                keep(selected, passed, &Passing { bits, rows: &block.build });
            }
            (PairDecider::Bits, _, AtomColumn::Bits(bits)) => {
                keep(selected, passed, &Passing { bits, rows: &block.probe });
            }
            (PairDecider::BitsOfEither, AtomColumn::EitherBits(build), AtomColumn::EitherBits(probe)) => {
                keep(selected, passed, &EitherPassing { build, probe, block });
            }
            (PairDecider::Edit(condition), ..) => {
                if let (Some(build), Some(probe)) = (build.texts(atom), probe.texts(atom)) {
                    condition.select(ColumnPair { build, probe }, block, selected, stop, passed);
                }
            }
            (PairDecider::Set(condition, ..), ..) => {
                if let (Some(build), Some(probe)) = (build.sets(atom), probe.sets(atom)) {
                    condition.select(ColumnPair { build, probe }, block, selected, passed);
                }
            }
            (PairDecider::Vector(condition, _), ..) => {
                if let (Some(build), Some(probe)) = (build.vectors(atom), probe.vectors(atom)) {
                    condition.select(ColumnPair { build, probe }, block, selected, passed);
                }
            }
            _ => {}
        }
    }

    /// What sizes and signatures of the keys of `atom` may differ in, where it compares any.
    pub fn allowance(&self, atom: usize) -> Option<&MaxDifferences> {
        match &self.deciders[atom] {
            PairDecider::Edit(condition) => Some(condition.allowance()),
            PairDecider::Set(condition, ..) => Some(condition.allowance()),
            PairDecider::Codes
            | PairDecider::Band
            | PairDecider::Bits
            | PairDecider::BitsOfEither
            | PairDecider::Vector(..)
            | PairDecider::Condition => None,
        }
    }

    /// For how many pairs of rows of one side the measure of `atom` has to be computed, lengths and signatures saying
    /// nothing.
    pub fn open(&self, atom: usize, side: &Columns, pairs: &Pairs) -> usize {
        let rows = pairs.build.iter().zip(&pairs.probe).map(|(&build, &probe)| RowPair { build, probe });
        match (&self.deciders[atom], side.texts(atom), side.sets(atom)) {
            (PairDecider::Edit(condition), Some(texts), _) => {
                let columns = ColumnPair { build: texts, probe: texts };
                rows.filter(|&pair| condition.is_open(columns, pair)).count()
            }
            (PairDecider::Set(condition, ..), _, Some(sets)) => {
                let columns = ColumnPair { build: sets, probe: sets };
                rows.filter(|&pair| condition.is_likely_open(columns, pair)).count()
            }
            (PairDecider::Vector(..), ..) => pairs.len(),
            _ => 0,
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let mut seen: Vec<*const Dictionary> = Vec::new();
        let dictionaries = self.deciders.iter().filter_map(|condition| match condition {
            PairDecider::Set(.., dictionary) => Some(dictionary),
            _ => None,
        });
        dictionaries
            .filter(|d| {
                !seen.contains(&Arc::as_ptr(d)) && {
                    seen.push(Arc::as_ptr(d));
                    true
                }
            })
            .map(|d| d.memory())
            .sum()
    }
}

/// Below this a thread costs more than it saves.
const ROWS_WORTH_A_THREAD: usize = 1 << 14;

impl RuleRows for Columns {
    fn of(&self, atom: usize) -> AtomRows<'_> {
        match (&self.atoms[atom], self.keys[atom].as_deref()) {
            (AtomColumn::Codes(codes), _) => AtomRows::Codes(codes),
            (AtomColumn::Band(band), _) => AtomRows::Band(band),
            (AtomColumn::Bits(bits), _) => AtomRows::Bits(bits),
            (AtomColumn::EitherBits(bits), _) => AtomRows::EitherBits(bits),
            (_, Some(Key::Texts(texts))) => texts.rows(),
            (_, Some(Key::Sets(sets))) => sets.rows(),
            (_, Some(Key::Vectors(vectors))) => vectors.rows(),
            (AtomColumn::None | AtomColumn::Values { .. }, None) => AtomRows::None,
        }
    }

    fn first_of_key(&self, atom: usize) -> usize {
        (0..atom).find(|&other| self.share_key(other, atom)).unwrap_or(atom)
    }
}

fn build_key(family: Family, values: &ArrayRef, context: &BuildContext<'_>) -> Result<(Key, Dictionary)> {
    match family {
        Family::Texts => {
            (context.reserve)(values.len() * 2 * size_of::<u128>())?;
            Ok((Key::Texts(StringColumn::try_new(values, context.threads)?), Dictionary::default()))
        }
        Family::Sets(tokenizer) => {
            let keys = KeyColumn { values: Arc::clone(values), groups: None };
            let (sets, dictionary) = SetColumn::build(tokenizer, &keys, context)?;
            Ok((Key::Sets(sets), dictionary))
        }
        Family::Vectors => {
            (context.reserve)(values.get_array_memory_size())?;
            Ok((Key::Vectors(VectorColumn::try_new(values)?), Dictionary::default()))
        }
    }
}

impl Columns {
    /// Strings of an atom, if it reads strings.
    pub fn texts(&self, atom: usize) -> Option<&StringColumn> {
        match self.keys[atom].as_deref() {
            Some(Key::Texts(texts)) => Some(texts),
            _ => None,
        }
    }

    fn sets(&self, atom: usize) -> Option<&SetColumn> {
        match self.keys[atom].as_deref() {
            Some(Key::Sets(sets)) => Some(sets),
            _ => None,
        }
    }

    /// Vectors of an atom, if it reads vectors.
    pub fn vectors(&self, atom: usize) -> Option<&VectorColumn> {
        match self.keys[atom].as_deref() {
            Some(Key::Vectors(vectors)) => Some(vectors),
            _ => None,
        }
    }

    /// The signature and the class of the key of `atom` in a row, where it has any.
    pub fn near(&self, atom: usize, row: u32) -> Option<(u64, u32)> {
        match self.keys[atom].as_deref()? {
            Key::Texts(texts) => Some(texts.near(row)),
            Key::Sets(sets) => Some(sets.near(row)),
            Key::Vectors(_) => None,
        }
    }

    /// Puts what is first asked of `rows` by `atom` side by side.
    pub fn gather(&self, atom: usize, rows: &[u32], lanes: &mut Lanes) {
        match self.keys[atom].as_deref() {
            Some(Key::Texts(texts)) => texts.gather(rows, lanes),
            Some(Key::Sets(sets)) => sets.gather(rows, lanes),
            Some(Key::Vectors(_)) | None => {}
        }
    }

    /// The codes and strings of some rows, and nothing else.
    pub fn sampled(&self, rows: &[u32], threads: usize) -> Result<Self> {
        let is_taken = |atom: usize| self.texts(atom).is_some() && self.first_of_key(atom) == atom;
        let of_key = threads_within((0..self.keys.len()).filter(|&atom| is_taken(atom)).count(), threads);
        let taken = in_turn(self.keys.len(), threads, |atom| match (&self.atoms[atom], self.keys[atom].as_deref()) {
            (AtomColumn::Codes(codes), _) => Ok((AtomColumn::Codes(codes.at(rows)?.into()), None)),
            (_, Some(Key::Texts(texts))) if is_taken(atom) => {
                Ok((AtomColumn::None, Some(Arc::new(Key::Texts(texts.take(rows, of_key)?)))))
            }
            _ => Ok((AtomColumn::None, None)),
        })?;
        let (atoms, taken): (_, Vec<_>) = taken.into_iter().unzip();
        let keys = (0..self.keys.len()).map(|atom| taken[self.first_of_key(atom)].clone()).collect();
        Ok(Self { rows: rows.len(), atoms, keys })
    }

    /// Whether an atom compares what [some rows](Self::sampled) are taken with.
    pub fn is_sampled(&self, atom: usize) -> bool {
        matches!(self.atoms[atom], AtomColumn::Codes(_)) || self.texts(atom).is_some()
    }

    /// Fetches the codes that a device has given, so that pairs can be [selected](AtomDeciders::select) by them.
    ///
    /// # Errors
    /// A device that fails.
    pub fn fetch_codes(&self, threads: usize) -> Result<()> {
        let codes = self.atoms.iter().filter_map(|column| match column {
            AtomColumn::Codes(codes) if codes.fetched().len() < codes.len() => Some(codes),
            _ => None,
        });
        let missing: Vec<&Codes> = codes.collect();
        in_turn(missing.len(), threads, |at| missing[at].on_host().map(|_| ()))?;
        Ok(())
    }

    /// Makes at once what is otherwise made once many pairs were decided.
    pub fn make_ready(&self, threads: usize) {
        let firsts: Vec<usize> = (0..self.keys.len()).filter(|&atom| self.first_of_key(atom) == atom).collect();
        each_in_turn(firsts.len(), threads, |at| self.texts(firsts[at]).map(StringColumn::make_ready));
    }

    /// Whether two atoms read the same key.
    pub fn share_key(&self, one: usize, other: usize) -> bool {
        match (&self.keys[one], &self.keys[other]) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }

    /// Rows for which no clause can hold, whatever the other side has: in each an atom is NULL, blank or false.
    ///
    /// # Errors
    /// A device that fails.
    pub fn unmatchable(&self, clauses: &[Vec<usize>], threads: usize) -> Result<usize> {
        let threads = if self.rows < ROWS_WORTH_A_THREAD { 1 } else { threads };
        let first = |atom| self.first_of_key(atom);
        let possible =
            in_turn(self.atoms.len(), threads, |atom| (first(atom) == atom).then(|| self.possible(atom)).transpose())?;
        let all = BooleanBuffer::new_set(self.rows);
        let of_clause = |number: usize| {
            let atoms = clauses[number].iter().filter_map(|&atom| possible[first(atom)].as_ref());
            atoms.fold(all.clone(), |rows, possible| &rows & possible)
        };
        let some = each_in_turn(clauses.len(), threads, of_clause).into_iter().reduce(|a, b| &a | &b);
        Ok(self.rows - some.map_or(0, |rows| rows.count_set_bits()))
    }

    /// Conditions of either side that hold for no row of this side, nor of `other`: no pair passes these atoms.
    pub fn impossible(&self, other: &Self) -> Vec<bool> {
        let none = |column: &AtomColumn| match column {
            AtomColumn::EitherBits(bits) => bits.set_indices().next().is_none(),
            _ => false,
        };
        self.atoms.iter().zip(&other.atoms).map(|(own, other)| none(own) && none(other)).collect()
    }

    fn possible(&self, atom: usize) -> Result<BooleanBuffer> {
        Ok(match (&self.atoms[atom], self.keys[atom].as_deref()) {
            (AtomColumn::Codes(codes), _) => codes.having_one()?,
            (AtomColumn::Bits(bits), _) => bits.clone(),
            (AtomColumn::Band(band), _) if !band.places.is_empty() => {
                BooleanBuffer::collect_bool(self.rows, |row| band.places[row] != Span::NONE)
            }
            (AtomColumn::Band(band), _) => {
                BooleanBuffer::collect_bool(self.rows, |row| band.accepted[row].first < band.accepted[row].last)
            }
            (_, Some(Key::Texts(texts))) => texts.valid(),
            (_, Some(Key::Sets(sets))) => BooleanBuffer::collect_bool(self.rows, |row| sets.can_match(row)),
            (_, Some(Key::Vectors(vectors))) => BooleanBuffer::collect_bool(self.rows, |row| vectors.can_match(row)),
            _ => BooleanBuffer::new_set(self.rows),
        })
    }

    /// The mean length of a similarity atom's keys, in characters or tokens.
    pub fn mean_length(&self, atom: usize) -> f64 {
        match self.keys[atom].as_deref() {
            Some(Key::Texts(texts)) => texts.mean_length(),
            Some(Key::Sets(sets)) => sets.mean_size(),
            Some(Key::Vectors(vectors)) => vectors.dimension().unwrap_or(0) as f64,
            None => 0.0,
        }
    }

    /// Bytes held.
    pub fn memory(&self) -> usize {
        let atoms = self.atoms.iter().map(|column| match column {
            AtomColumn::Codes(codes) => codes.memory(),
            AtomColumn::Bits(bits) | AtomColumn::EitherBits(bits) => bits.len() / 8,
            AtomColumn::Band(band) => (band.places.capacity() + band.accepted.capacity()) * size_of::<Span>(),
            AtomColumn::None | AtomColumn::Values { .. } => 0,
        });
        let mut seen: Vec<*const Key> = Vec::new();
        let keys = self.keys.iter().flatten().filter(|key| {
            let new = !seen.contains(&Arc::as_ptr(key));
            seen.push(Arc::as_ptr(key));
            new
        });
        let keys = keys.map(|key| match key.as_ref() {
            Key::Texts(texts) => texts.memory(),
            Key::Sets(sets) => sets.memory(),
            Key::Vectors(vectors) => vectors.memory(),
        });
        atoms.sum::<usize>() + keys.sum::<usize>()
    }
}

impl Columns {
    /// Columns of codes alone.
    #[doc(hidden)]
    pub fn of_codes(rows: usize, atoms: Vec<AtomColumn>) -> Self {
        let keys = atoms.iter().map(|_| None).collect();
        Self { rows, atoms, keys }
    }
}
