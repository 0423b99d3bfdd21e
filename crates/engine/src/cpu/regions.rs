//! Which parts of two sides have no match, for sides that are not held whole: by where points lie, or by how long
//! strings and how large sets are.
//!
//! A sample says where regions end. Each part of a side knows the least and the largest that it has, and two parts are
//! compared where some row of one may match some row of the other.
//!
//! Source: LSS (ICDE 2008), section V.B, for points; the length filter of set and edit joins, for parts of a side.

use arrow::array::{Array, ArrayRef};

use super::vectors::{Extent, PointRegions, REGIONS};
use crate::condition::Condition;
use crate::error::Result;
use crate::sets::SetPredicate;
use crate::sets::predicate::Role;
use crate::sets::tokenise::tokenise_build;
use crate::strings::EditPredicate;
use crate::strings::features::length_of;
use crate::strings::predicate::LONGEST_PREFIX;
use crate::views::string_views;
use crate::{Cancel, KeyColumn};

/// Pairs of regions out of which one at least has to be too far apart for a division to pay.
const WORTH_DIVIDING: usize = 4;

/// Rows of a side, divided.
#[derive(Debug)]
pub enum Regions {
    /// Vectors, by where they lie.
    Points(PointRegions),
    /// Strings or sets, by their size.
    Sizes(SizeRegions),
}

impl Regions {
    /// Divides rows as `sample` is spread; none where that keeps no parts apart.
    pub fn of(condition: Condition, sample: &ArrayRef) -> Option<Self> {
        match condition {
            Condition::Vector(condition) => PointRegions::of(condition, sample).map(Self::Points),
            Condition::Set { .. } | Condition::Edit { .. } => SizeRegions::of(condition, sample).map(Self::Sizes),
        }
    }

    /// Region of each row; `extents`, one for each of [`REGIONS`], grow around the rows.
    ///
    /// # Errors
    /// Keys of a type that the condition cannot read, vectors of another length than the sample's.
    pub fn place(&self, keys: &ArrayRef, extents: &mut [Extent]) -> Result<Vec<u32>> {
        match self {
            Self::Points(regions) => regions.place(keys, extents),
            Self::Sizes(regions) => regions.place(keys, extents),
        }
    }

    /// Whether a row of one part may match one of the other.
    pub fn may_match(&self, one: &Extent, other: &Extent) -> bool {
        match self {
            Self::Points(regions) => regions.may_match(one, other),
            Self::Sizes(regions) => regions.may_match(one, other),
        }
    }
}

/// Characters of strings, or elements of sets, divided.
#[derive(Debug)]
pub struct SizeRegions {
    condition: Condition,
    /// The largest size of each region but the last one.
    ends: Vec<u32>,
}

impl SizeRegions {
    fn of(condition: Condition, sample: &ArrayRef) -> Option<Self> {
        let mut known: Vec<u32> = sizes(condition, sample).ok()?.into_iter().flatten().collect();
        known.sort_unstable();
        let last = *known.last()?;
        let mut ends: Vec<u32> = (1..REGIONS).map(|region| known[region * known.len() / REGIONS]).collect();
        ends.dedup();
        ends.retain(|&end| end < last);
        let regions = Self { condition, ends };
        let places: Vec<(u32, u32)> = regions.ends.iter().map(|&end| (end, end)).chain([(last, last)]).collect();
        let pairs = places.iter().flat_map(|one| places.iter().map(move |other| (*one, *other)));
        let apart = pairs.filter(|&(one, other)| !regions.may_match_sizes(one, other)).count();
        (apart * WORTH_DIVIDING >= places.len() * places.len()).then_some(regions)
    }

    fn place(&self, keys: &ArrayRef, extents: &mut [Extent]) -> Result<Vec<u32>> {
        let place = |size: Option<u32>| {
            // a row without a size matches nothing
            let Some(size) = size else { return 0 };
            let region = self.ends.partition_point(|&end| end < size);
            extents[region].extend(&[f64::from(size)]);
            region as u32
        };
        Ok(sizes(self.condition, keys)?.into_iter().map(place).collect())
    }

    fn may_match(&self, one: &Extent, other: &Extent) -> bool {
        match one.boxes(other) {
            Ok([&[one], &[other]]) => {
                // the box around a number ends next to it
                let sizes = |(first, last): (f64, f64)| (first.ceil() as u32, last.floor() as u32);
                self.may_match_sizes(sizes(one), sizes(other))
            }
            Ok(_) => true,
            Err(may_match) => may_match,
        }
    }

    /// Whether a row of some sizes may match one of others. Of sizes that are apart those next to each other match
    /// best.
    fn may_match_sizes(&self, one: (u32, u32), other: (u32, u32)) -> bool {
        let (below, above) = if one.1 <= other.1 { (one, other) } else { (other, one) };
        let (small, large) = (below.1, above.0);
        if small >= large {
            return true;
        }
        match self.condition {
            Condition::Edit { measure, bounds } => {
                EditPredicate { measure, bounds }.is_possible(small as usize, large as usize, LONGEST_PREFIX)
            }
            Condition::Set { measure, bounds, .. } => {
                let predicate = SetPredicate { measure, bounds };
                // either may be of the build side
                [Role::Build, Role::Probe]
                    .into_iter()
                    .any(|role| predicate.sizes(role, small, large).is_some_and(|partners| partners.contains(&large)))
            }
            Condition::Vector(_) => true,
        }
    }
}

/// Characters of each string, or elements of each set; `None` for rows that match nothing.
fn sizes(condition: Condition, keys: &ArrayRef) -> Result<Vec<Option<u32>>> {
    match condition {
        Condition::Set { tokenizer, .. } => {
            let column = KeyColumn { values: ArrayRef::clone(keys), groups: None };
            let sets = tokenise_build(tokenizer, &column, 1, &Cancel::default(), &|_| Ok(()))?;
            let size = |ids: &[u32]| (!ids.is_empty()).then_some(ids.len() as u32);
            Ok(sets.iter().flat_map(|range| (0..range.rows.len()).map(move |at| size(range.ids(at)))).collect())
        }
        Condition::Edit { .. } => {
            let texts = string_views(keys)?;
            Ok(texts.iter().map(|text| text.map(|text| length_of(text) as u32)).collect())
        }
        Condition::Vector(_) => Ok(vec![None; keys.len()]),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::StringArray;
    use similarity_measures::{EditMeasure, Overlap, SetMeasure, Tokenizer};

    use super::*;
    use crate::condition::Bounds;

    fn words(count: usize) -> String {
        (0..count).map(|word| format!("w{word}")).collect::<Vec<_>>().join(" ")
    }

    fn keys(sizes: impl Iterator<Item = usize>, text: impl Fn(usize) -> String) -> ArrayRef {
        Arc::new(sizes.map(|size| Some(text(size))).chain([None]).collect::<StringArray>())
    }

    /// Sizes of all parts, and which pairs of parts are not compared.
    fn apart(regions: &Regions, keys: &ArrayRef, sizes: &[usize]) -> Vec<(Vec<usize>, Vec<usize>)> {
        let mut extents = vec![Extent::default(); REGIONS];
        let placed = regions.place(keys, &mut extents).unwrap();
        let of_region = |region: usize| -> Vec<usize> {
            sizes.iter().zip(&placed).filter(|(_, placed)| **placed == region as u32).map(|(size, _)| *size).collect()
        };
        let pairs = (0..REGIONS).flat_map(|one| (0..REGIONS).map(move |other| (one, other)));
        let apart = pairs.filter(|&(one, other)| !regions.may_match(&extents[one], &extents[other]));
        apart.map(|(one, other)| (of_region(one), of_region(other))).collect()
    }

    #[test]
    fn no_strings_that_match_are_in_parts_that_are_not_compared() {
        let sizes: Vec<usize> = (0..3000).map(|n| n * 37 % 400).collect();
        for (measure, bounds) in [
            (EditMeasure::LEVENSHTEIN, Bounds::at_most(3.0, true)),
            (EditMeasure::LEVENSHTEIN_SIMILARITY, Bounds::at_least(0.8, true)),
            (EditMeasure::HAMMING, Bounds::at_most(3.0, true)),
            (EditMeasure::JARO_WINKLER, Bounds::at_least(0.95, true)),
        ] {
            let keys = keys(sizes.iter().copied(), |size| "a".repeat(size));
            let regions = Regions::of(Condition::Edit { measure, bounds }, &keys).unwrap();
            let apart = apart(&regions, &keys, &sizes);
            let mut skipped = 0;
            for (one, other) in apart {
                skipped += usize::from(!one.is_empty() && !other.is_empty());
                // of all strings of two lengths those of one letter are the most alike
                for (&a, &b) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))).step_by(7) {
                    let score = measure.score(&"a".repeat(a), &"a".repeat(b));
                    assert!(!score.is_some_and(|score| bounds.contains(score)), "{measure:?} of {a} and {b}");
                }
            }
            assert!(skipped > 1000, "{measure:?}: {skipped}");
        }
    }

    #[test]
    fn no_sets_that_match_are_in_parts_that_are_not_compared() {
        let sizes: Vec<usize> = (0..2000).map(|n| 1 + n * 37 % 150).collect();
        let tversky = SetMeasure::TVERSKY.with(&[0.9, 0.2]).unwrap();
        for (measure, bound) in [(SetMeasure::JACCARD, 0.8), (SetMeasure::DICE, 0.9), (tversky, 0.9)] {
            let bounds = Bounds::at_least(bound, true);
            let keys = keys(sizes.iter().copied(), words);
            let condition = Condition::Set { tokenizer: Tokenizer::Words, measure, bounds };
            let regions = Regions::of(condition, &keys).unwrap();
            let apart = apart(&regions, &keys, &sizes);
            let mut skipped = 0;
            for (one, other) in apart {
                skipped += usize::from(!one.is_empty() && !other.is_empty());
                for (&left, &right) in one.iter().flat_map(|a| other.iter().map(move |b| (a, b))) {
                    let score = measure.score(Overlap { common: left.min(right), left, right });
                    assert!(!bounds.contains(score), "{measure:?} of {left} and {right}");
                }
            }
            assert!(skipped > 500, "{measure:?}: {skipped}");
        }
    }

    #[test]
    fn sizes_that_keep_nothing_apart_are_not_divided() {
        let close = keys((0..500).map(|n| 10 + n % 3), |size| "a".repeat(size));
        let within = |most| Condition::Edit { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(most, true) };
        assert!(Regions::of(within(2.0), &close).is_none());
        assert!(Regions::of(within(0.0), &close).is_some());
        let nothing: ArrayRef = Arc::new(StringArray::from(vec![None::<&str>; 9]));
        assert!(Regions::of(within(0.0), &nothing).is_none());
    }
}
