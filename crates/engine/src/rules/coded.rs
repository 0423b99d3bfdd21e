//! Stage one of a build: equalities have codes, and any pair of rows can be decided.

use std::sync::Arc;

use crate::error::{Error, Result, internal_err};
use arrow::array::ArrayRef;

use super::ahead::{SharedEquality, SharedStrings, bring_ahead};
use super::placement::{NumberingDevice, Placement};
use super::source::RuleSource;
use crate::BuildContext;
use crate::accelerator::Accelerator;
use crate::atoms::{AtomColumn, AtomCondition, SideColumns};
use crate::choice::Engine;
use crate::cpu::columns::{AtomDeciders, BuildAtoms, Columns};
use crate::equality::{Codes, Groups, Numberer};
use crate::parallel::{both, in_turn, threads_within};
use crate::plan::AtomKind;

/// The rows of a build side, as all later stages have them.
#[derive(Debug)]
pub(super) struct BuildSide {
    pub(super) deciders: AtomDeciders,
    pub(super) columns: Columns,
    /// What a probe side is looked up in, for each atom that is an equality.
    pub(super) groups: Vec<Option<Groups>>,
    /// The atoms of each clause.
    pub(super) clauses: Vec<Vec<usize>>,
    /// Whether the build side is its own probe side.
    pub(super) self_join: bool,
}

impl BuildSide {
    pub(super) fn atoms(&self) -> BuildAtoms<'_> {
        BuildAtoms { deciders: &self.deciders, columns: &self.columns }
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let groups: usize = self.groups.iter().flatten().map(Groups::memory).sum();
        self.deciders.memory() + groups + self.columns.memory()
    }
}

/// A build side whose equalities have codes.
#[derive(Debug)]
pub(super) struct CodedRules {
    pub(super) side: BuildSide,
    /// What each atom is to the plan.
    pub(super) kinds: Vec<AtomKind>,
    /// Keys of similarities.
    pub(super) keys: Vec<ArrayRef>,
    pub(super) on: Placement<NumberingDevice>,
}

impl CodedRules {
    /// Numbers the values of the equalities of `columns`, and makes the keys of its similarities ready.
    ///
    /// # Errors
    /// Keys of a type that their measure cannot read, a refused reservation, a cancelled build, a device that fails.
    pub(super) fn of(
        source: RuleSource,
        columns: SideColumns,
        engine: &Engine,
        context: &BuildContext<'_>,
    ) -> Result<Self> {
        let RuleSource { conditions, clauses, sent } = source;
        let kinds = conditions.iter().map(AtomKind::from).collect();
        if context.self_join && !conditions.iter().all(AtomCondition::is_symmetric) {
            return internal_err!("a rule has a measure that is not symmetric: a self-join reads both of its sides");
        }
        let keys = columns.keys.clone();
        let device = sent.or_else(|| engine.device_of_keys(columns.rows, context));
        device.iter().for_each(|device| device.read_rules_ahead(context.cancel));
        context.cancel.check()?;
        let values: Vec<Option<(ArrayRef, bool)>> = columns.atoms.iter().map(AtomColumn::values).collect();
        let equalities = Equalities { values: &values, device: device.as_deref(), context };
        let shared = match &device {
            Some(device) if context.self_join => {
                SharedStrings::of(device.platform(), &conditions, &clauses, &values, &keys)
            }
            _ => SharedStrings::default(),
        };
        let (coded, brought) = both(
            || equalities.code(|atom| !shared.has(atom)),
            // what a device is brought for similarities asks for no codes
            || {
                let (deciders, columns) = AtomDeciders::build(conditions, columns, context)?;
                let atoms = BuildAtoms { deciders: &deciders, columns: &columns };
                let ahead = match &device {
                    Some(device) => bring_ahead(device.as_ref(), atoms, &clauses, &shared, context.threads)?,
                    None => None,
                };
                Ok::<_, Error>((deciders, columns, ahead))
            },
        );
        let (mut coded, (deciders, mut columns, mut ahead)) = (coded?, brought?);
        for &SharedEquality { equality, with } in &shared.equalities {
            if let Some(codes) = ahead.as_mut().and_then(|rules| rules.take_codes(with)) {
                (context.reserve)(codes.memory())?;
                coded[equality] = Some((Groups::SelfJoin, codes));
            }
        }
        // columns that were sent ahead and are unused by now stay unused
        device.iter().for_each(|device| device.forget_prefetched());
        // strings that were not brought, or that the device could not tell apart
        let missing = equalities.code(|atom| shared.has(atom) && coded[atom].is_none())?;
        let mut groups = Vec::with_capacity(coded.len());
        for (column, (coded, missing)) in columns.atoms.iter_mut().zip(coded.into_iter().zip(missing)) {
            let (of_atom, codes) = coded.or(missing).unzip();
            groups.push(of_atom);
            codes.into_iter().for_each(|codes| *column = AtomColumn::Codes(codes));
        }
        context.cancel.check()?;
        let on = match device {
            Some(device) => Placement::OnDevice(NumberingDevice { device, ahead }),
            None => Placement::OnHost,
        };
        let side = BuildSide { deciders, columns, groups, clauses, self_join: context.self_join };
        Ok(Self { side, kinds, keys, on })
    }
}

/// The equalities of a build side, and what numbers their values.
struct Equalities<'a> {
    /// The values of each atom that is an equality, and whether two NULLs are equal.
    values: &'a [Option<(ArrayRef, bool)>],
    device: Option<&'a dyn Accelerator>,
    context: &'a BuildContext<'a>,
}

impl Equalities<'_> {
    /// The groups and the codes of the values of the equalities that are `asked`, by so many threads as the context
    /// says, or by the device.
    fn code(&self, asked: impl Fn(usize) -> bool + Sync) -> Result<Vec<Option<(Groups, Codes)>>> {
        let Self { values, device, context } = *self;
        let count = (0..values.len()).filter(|&atom| values[atom].is_some() && asked(atom)).count();
        let threads = threads_within(count, context.threads);
        in_turn(values.len(), if count > 0 { context.threads } else { 1 }, |atom| {
            let Some((values, null_equals_null)) = values[atom].as_ref().filter(|_| asked(atom)) else {
                return Ok(None);
            };
            (context.reserve)(values.len() * size_of::<u32>())?;
            let by = Numberer { threads, self_join: context.self_join, device };
            let (groups, codes) = Groups::build(&[Arc::clone(values)], vec![*null_equals_null], by)?;
            (context.reserve)(groups.memory())?;
            Ok(Some((groups, codes)))
        })
    }
}
