//! A number for each row by what it holds. Rows are drawn by it, so that it does not matter in which order they have
//! come in.

use std::hash::BuildHasher;
use std::iter;
use std::ops::Range;

use crate::error::{Result, internal_err};
use arrow::array::{Array, ArrayRef, MAX_INLINE_VIEW_LEN, StringViewArray, UInt32Array};
use arrow::compute::take;
use arrow::row::{RowConverter, SortField};
use foldhash::fast::FixedState;

use super::columns::{AtomDeciders, Columns};
use super::strings::StringColumn;
use crate::atoms::{AtomColumn, AtomCondition};
use crate::hash::mix;
use crate::parallel::{in_parallel, ranges};
use crate::views::string_views;

/// How much of long strings fingerprints tell.
#[derive(Debug, Clone, Copy)]
pub enum Detail {
    /// The length and the first four bytes, which stand in a view.
    Views,
    /// The length, and sixteen bytes at the beginning and at the end.
    Strings,
}

/// What makes fingerprints of rows: all that atoms ask for and pairs do not agree in, a column after the other in any
/// order. `text_prints` of `kernels/coded_strings.cu` does the same with views.
pub struct Fingerprints<'a> {
    rows: usize,
    parts: Vec<Print<'a>>,
}

/// Adds what a column has in some rows to their fingerprints.
type Print<'a> = Box<dyn Fn(&Rows<'_>, &mut [u64]) -> Result<()> + Sync + 'a>;

/// Rows by their numbers.
enum Rows<'a> {
    All(Range<usize>),
    Some(&'a [u32]),
}

impl Rows<'_> {
    /// Adds a number of each row, mixed with that of its column, to the row's fingerprint.
    #[inline(always)]
    fn add(&self, prints: &mut [u64], column: u64, number: impl Fn(usize) -> u128) {
        let add = |print: &mut u64, row| *print = print.wrapping_add(mix_wide(column, number(row)));
        match self {
            Self::All(rows) => {
                for (row, print) in rows.clone().zip(prints) {
                    add(print, row);
                }
            }
            Self::Some(rows) => {
                for (row, print) in rows.iter().zip(prints) {
                    add(print, *row as usize);
                }
            }
        }
    }

    fn of(&self, values: &ArrayRef) -> Result<ArrayRef> {
        Ok(match self {
            Self::All(rows) => values.slice(rows.start, rows.len()),
            Self::Some(rows) => take(values, &UInt32Array::from(rows.to_vec()), None)?,
        })
    }
}

#[inline(always)]
fn mix_wide(hash: u64, number: u128) -> u64 {
    mix(mix(hash, number as u64), (number >> u64::BITS) as u64)
}

/// Rows whose fingerprints are made together: few enough to stay in a cache from one part to the next.
const AT_ONCE: usize = 1 << 11;

/// Below this a thread costs more than it saves.
const ROWS_WORTH_A_THREAD: usize = 1 << 15;

/// No view is this.
const NULL: u128 = u128::MAX;

/// The first and the last sixteen bytes; of fewer all, and nothing.
fn ends(text: &[u8]) -> [u128; 2] {
    match (text.first_chunk(), text.last_chunk()) {
        (Some(first), Some(last)) => [*first, *last].map(u128::from_le_bytes),
        _ => {
            let mut all = [0; size_of::<u128>()];
            all[..text.len()].copy_from_slice(text);
            [u128::from_le_bytes(all), 0]
        }
    }
}

fn print_strings(values: &StringViewArray, detail: Detail, column: u64, rows: &Rows<'_>, prints: &mut [u64]) {
    let views: &[u128] = values.views();
    let is_short = |view: u128| view as u32 <= MAX_INLINE_VIEW_LEN;
    match detail {
        // behind the first bytes of a long string a view has where it lies; that of a NULL is as good as any
        Detail::Views => rows.add(prints, column, |row| {
            let view = views[row];
            if is_short(view) { view } else { u128::from(view as u64) }
        }),
        Detail::Strings => rows.add(prints, column, |row| match views[row] {
            _ if values.is_null(row) => NULL,
            view if is_short(view) => view,
            view => {
                let [beginning, end] = ends(values.value(row).as_bytes());
                mix_wide(mix_wide(view as u64, beginning), end).into()
            }
        }),
    }
}

/// A bound that somewhat more than `count` of so many fingerprints are no greater than: they are spread evenly, but
/// for rows that have the same one.
pub fn bound(rows: usize, count: usize) -> u64 {
    (u64::MAX / rows.max(1) as u64).saturating_mul((count + count.div_ceil(4)) as u64)
}

impl<'a> Fingerprints<'a> {
    /// Fingerprints of one side; `keys` are those of similarities.
    pub fn new(columns: &'a Columns, deciders: &AtomDeciders, keys: &'a [ArrayRef], detail: Detail) -> Result<Self> {
        let mut parts: Vec<Print<'a>> = Vec::new();
        let mut seen = Vec::new();
        for (atom, condition) in deciders.conditions.iter().enumerate() {
            let column = parts.len() as u64;
            match (&columns.atoms[atom], condition) {
                (AtomColumn::Bits(bits) | AtomColumn::EitherBits(bits), _) => {
                    parts.push(Box::new(move |rows, prints| {
                        rows.add(prints, column, |row| bits.value(row).into());
                        Ok(())
                    }))
                }
                (AtomColumn::Band(band), _) => parts.push(Box::new(move |rows, prints| {
                    rows.add(prints, column, |row| band.places[row].first.into());
                    Ok(())
                })),
                (_, AtomCondition::Similarity { key, .. }) if !seen.contains(key) => {
                    seen.push(*key);
                    let Some(values) = keys.get(*key) else { return internal_err!("an atom names a missing key") };
                    parts.push(of_key(columns, atom, values, detail, column)?);
                }
                _ => {}
            }
        }
        Ok(Self { rows: columns.rows, parts })
    }

    fn print(&self, rows: &Rows<'_>, prints: &mut [u64]) -> Result<()> {
        prints.fill(0);
        self.parts.iter().try_for_each(|part| part(rows, prints))
    }

    /// Fingerprints of some rows.
    ///
    /// # Errors
    /// Keys of a type that cannot be read.
    pub fn of_rows(&self, rows: &[u32]) -> Result<Vec<u64>> {
        let mut prints = vec![0; rows.len()];
        self.print(&Rows::Some(rows), &mut prints)?;
        Ok(prints)
    }

    /// The rows with the `count` least fingerprints, in their order, with these; of equal ones the first rows.
    ///
    /// # Errors
    /// Keys of a type that cannot be read.
    pub fn least(&self, count: usize, threads: usize) -> Result<Vec<(u64, u32)>> {
        let share = bound(self.rows, count);
        let mut least = self.up_to(share, threads)?;
        if least.len() < count {
            least = self.up_to(u64::MAX, threads)?;
        }
        if least.len() > count {
            least.select_nth_unstable(count);
            least.truncate(count);
        }
        least.sort_unstable();
        Ok(least)
    }

    /// All rows whose fingerprints are no greater than a bound.
    fn up_to(&self, bound: u64, threads: usize) -> Result<Vec<(u64, u32)>> {
        let parts = in_parallel(ranges(self.rows, threads, ROWS_WORTH_A_THREAD), |rows| {
            let (mut prints, mut found) = ([0; AT_ONCE], Vec::new());
            for first in rows.clone().step_by(AT_ONCE) {
                let block = first..rows.end.min(first + AT_ONCE);
                let prints = &mut prints[..block.len()];
                self.print(&Rows::All(block.clone()), prints)?;
                let least = prints.iter().zip(block).filter(|(print, _)| **print <= bound);
                found.extend(least.map(|(&print, row)| (print, row as u32)));
            }
            Ok(found)
        })?;
        Ok(parts.concat())
    }
}

/// What a key adds, that of an atom.
fn of_key<'a>(
    columns: &'a Columns,
    atom: usize,
    values: &'a ArrayRef,
    detail: Detail,
    column: u64,
) -> Result<Print<'a>> {
    Ok(match (columns.texts(atom).map(StringColumn::values), columns.vectors(atom)) {
        (Some(values), _) => Box::new(move |rows, prints| {
            print_strings(values, detail, column, rows, prints);
            Ok(())
        }),
        (_, Some(vectors)) => Box::new(move |rows, prints| {
            rows.add(prints, column, |row| {
                let elements = vectors.at(row as u32).unwrap_or_default().iter();
                elements.fold(0, |print, element| mix(print, element.to_bits())).into()
            });
            Ok(())
        }),
        (None, None) => match string_views(values) {
            Ok(texts) => Box::new(move |rows, prints| {
                print_strings(&texts, detail, column, rows, prints);
                Ok(())
            }),
            Err(_) => {
                let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
                Box::new(move |rows, prints| {
                    let converted = converter.convert_columns(&[rows.of(values)?])?;
                    let hashes = converted.iter().map(|row| FixedState::default().hash_one(row.as_ref()));
                    iter::zip(prints, hashes).for_each(|(print, hash)| *print = print.wrapping_add(mix(column, hash)));
                    Ok(())
                })
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::ListArray;
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::atoms::SideColumns;
    use crate::condition::{Bounds, Condition};
    use crate::{BuildContext, Cancel};
    use similarity_measures::{EditMeasure, SetMeasure, Tokenizer};

    /// What `work` makes of the fingerprints of some values, keys of a string or of a set measure.
    fn with<T>(values: ArrayRef, detail: Detail, work: impl FnOnce(&Fingerprints<'_>) -> T) -> T {
        let edit = Condition::Edit { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(1.0, true) };
        let set = Condition::Set {
            tokenizer: Tokenizer::Elements,
            measure: SetMeasure::JACCARD,
            bounds: Bounds::at_least(0.5, true),
        };
        let condition = if string_views(&values).is_ok() { edit } else { set };
        let conditions = vec![AtomCondition::Similarity { key: 0, condition }];
        let keys = vec![values];
        let side = SideColumns { rows: keys[0].len(), atoms: vec![AtomColumn::None], keys: keys.clone() };
        let cancel = Cancel::default();
        let context = BuildContext::new(2, &cancel, &|_| Ok(()));
        let (deciders, columns) = AtomDeciders::build(conditions, side, &context).unwrap();
        work(&Fingerprints::new(&columns, &deciders, &keys, detail).unwrap())
    }

    #[test]
    fn the_least_are_found() {
        let rows = 150_000u32;
        let spread: ArrayRef = Arc::new((0..rows).map(|row| Some(row.to_string())).collect::<StringViewArray>());
        // most rows are one of two
        let text = |row: u32| Some(if !row.is_multiple_of(3) { format!("{}", row % 2) } else { row.to_string() });
        let clustered: ArrayRef = Arc::new((0..rows).map(text).collect::<StringViewArray>());
        let list = |row: u32| (!row.is_multiple_of(7)).then(|| vec![Some(i64::from(row)), None, Some(5)]);
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>((0..9000).map(list)));
        for values in [spread.slice(0, 40), spread, clustered, lists] {
            with(Arc::clone(&values), Detail::Views, |fingerprints| {
                let all: Vec<u32> = (0..values.len() as u32).collect();
                let mut expected: Vec<_> = iter::zip(fingerprints.of_rows(&all).unwrap(), all).collect();
                expected.sort_unstable();
                for count in [0, 1, 50, 100_000, 200_000] {
                    let found = fingerprints.least(count, 3).unwrap();
                    assert_eq!(found, expected[..count.min(expected.len())], "{count} of {}", values.len());
                }
            });
        }
        with(Arc::new(StringViewArray::from(Vec::<Option<&str>>::new())), Detail::Views, |fingerprints| {
            assert!(fingerprints.least(3, 2).unwrap().is_empty());
        });
    }

    #[test]
    fn rows_are_told_apart_as_far_as_the_detail_goes() {
        let distinct = |texts: &[Option<&str>], detail| {
            let rows: Vec<u32> = (0..texts.len() as u32).collect();
            let values: ArrayRef = Arc::new(texts.iter().copied().collect::<StringViewArray>());
            let mut prints = with(values, detail, |fingerprints| fingerprints.of_rows(&rows).unwrap());
            prints.sort_unstable();
            prints.dedup();
            prints.len()
        };
        let texts =
            [None, Some(""), Some("a"), Some("twelve bytes"), Some("twelve bytez"), None, Some("\0"), Some("a")];
        // a NULL has the view of an empty string here
        assert_eq!(distinct(&texts, Detail::Views), 5);
        assert_eq!(distinct(&texts, Detail::Strings), 6);
        // of the same length, with the same beginning; told apart at either end
        let long = ["a long string, the first", "a long string, the other", "a lost string, the first"].map(Some);
        assert_eq!(distinct(&long, Detail::Views), 1);
        assert_eq!(distinct(&long, Detail::Strings), 3);
        assert_eq!(distinct(&["thirteen byte", "thirteen bite"].map(Some), Detail::Strings), 2);
    }
}
