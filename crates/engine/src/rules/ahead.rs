//! Columns of a build side on a device: what is brought before there is a plan, and what for the entries of one.

use crate::error::Result;
use arrow::array::{Array, ArrayData, ArrayRef};

use crate::accelerator::rules::{DeviceRules, RulesSide};
use crate::accelerator::{Accelerator, Platform};
use crate::atoms::{AtomCondition, RuleRows};
use crate::condition::Condition;
use crate::cpu::columns::BuildAtoms;
use crate::cpu::prefilter::MaxDifferences;
use crate::offered::Offered;

/// The atoms that are no equalities and that a plan will ask on a device, where an entry by places is expected.
fn asked_ahead(platform: &dyn Platform, conditions: &[AtomCondition], clauses: &[Vec<usize>]) -> Option<Vec<bool>> {
    let mut asked = vec![false; conditions.len()];
    clauses.iter().flatten().for_each(|&atom| asked[atom] = true);
    let is_place = |condition: &AtomCondition| matches!(condition, AtomCondition::Equality | AtomCondition::Band);
    let has_places = conditions.iter().zip(&asked).any(|(condition, asked)| *asked && is_place(condition));
    for (asked, condition) in asked.iter_mut().zip(conditions) {
        *asked &= *condition != AtomCondition::Equality && platform.filters_atom(condition);
    }
    has_places.then_some(asked)
}

/// The keys of similarities whose strings are brought to a device that numbers the keys of equalities.
pub fn strings_ahead<'a>(
    platform: &dyn Platform,
    conditions: &'a [AtomCondition],
    clauses: &[Vec<usize>],
) -> impl Iterator<Item = usize> + use<'a> {
    let asked = asked_ahead(platform, conditions, clauses).unwrap_or_default();
    conditions.iter().zip(asked).filter(|(_, asked)| *asked).filter_map(|(condition, _)| match condition {
        AtomCondition::Similarity { key, condition: Condition::Edit { .. } } => Some(*key),
        _ => None,
    })
}

/// Equalities over strings that an edit measure reads, too, so that one copy of these is brought to a device for both.
#[derive(Debug, Default)]
pub struct SharedStrings {
    /// Each of the equalities.
    pub(super) equalities: Vec<SharedEquality>,
    /// Whether two NULLs are equal, by the atom with which the strings are brought.
    null_equals_null: Vec<Option<bool>>,
}

/// One equality whose strings an edit measure reads, too.
#[derive(Debug)]
pub(super) struct SharedEquality {
    pub(super) equality: usize,
    /// The atom with which its strings are brought.
    pub(super) with: usize,
}

impl SharedStrings {
    /// Shared strings of rules whose similarities are brought ahead, given the values of `equalities` and the `keys` of
    /// similarities.
    pub fn of(
        platform: &dyn Platform,
        conditions: &[AtomCondition],
        clauses: &[Vec<usize>],
        equalities: &[Option<(ArrayRef, bool)>],
        keys: &[ArrayRef],
    ) -> Self {
        let mut shared = Self { equalities: Vec::new(), null_equals_null: vec![None; conditions.len()] };
        let Some(asked) = asked_ahead(platform, conditions, clauses) else { return shared };
        let keys: Vec<ArrayData> = keys.iter().map(|key| key.to_data()).collect();
        for (atom, equality) in equalities.iter().enumerate() {
            let Some((values, null_equals_null)) = equality else { continue };
            let values = values.to_data();
            let reads = |other: &usize| match conditions[*other] {
                AtomCondition::Similarity { key, condition: Condition::Edit { .. } } => {
                    asked[*other] && keys.get(key).is_some_and(|key| key.ptr_eq(&values))
                }
                _ => false,
            };
            if let Some(other) = (0..conditions.len()).find(reads)
                && shared.null_equals_null[other].is_none()
            {
                shared.null_equals_null[other] = Some(*null_equals_null);
                shared.equalities.push(SharedEquality { equality: atom, with: other });
            }
        }
        shared
    }

    /// Whether an equality is among them.
    pub fn has(&self, equality: usize) -> bool {
        self.equalities.iter().any(|shared| shared.equality == equality)
    }
}

/// Brings what is no equality to a device, before there is a plan, as far as it will be asked there; with the codes of
/// those equalities that share their strings.
///
/// # Errors
/// A device that fails.
pub fn bring_ahead(
    device: &dyn Accelerator,
    atoms: BuildAtoms<'_>,
    clauses: &[Vec<usize>],
    shared: &SharedStrings,
    threads: usize,
) -> Result<Option<Box<dyn DeviceRules>>> {
    let BuildAtoms { deciders, columns } = atoms;
    let Some(asked) = asked_ahead(device.platform(), &deciders.conditions, clauses) else { return Ok(None) };
    // fingerprints are those of the CPU engine where strings are all that it reads
    let is_read = |(condition, asked): (&AtomCondition, &bool)| match condition {
        AtomCondition::Equality => true,
        AtomCondition::Similarity { condition: Condition::Edit { .. }, .. } => *asked,
        _ => false,
    };
    let printed = deciders.conditions.iter().zip(&asked).all(is_read).then_some(columns.rows);
    Ok(bring(device, atoms, asked, &shared.null_equals_null, printed, threads)?.taken())
}

/// Brings what the build side has for the atoms that are `asked` to a device, and numbers the keys of some
/// `equalities`, which are named as [`RulesSide::equalities`] says.
///
/// # Errors
/// A device that fails.
pub(super) fn bring(
    device: &dyn Accelerator,
    BuildAtoms { deciders, columns }: BuildAtoms<'_>,
    asked: Vec<bool>,
    equalities: &[Option<bool>],
    printed: Option<usize>,
    threads: usize,
) -> Result<Offered<Box<dyn DeviceRules>>> {
    let allowance = |atom: usize| deciders.allowance(atom).map_or(&[][..], MaxDifferences::by_classes);
    let (conditions, rows) = (deciders.conditions.as_slice(), columns as &dyn RuleRows);
    device.bring_rules(RulesSide { conditions, allowances: &allowance, rows, asked, equalities, printed, threads })
}
