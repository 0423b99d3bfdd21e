//! The strings of a build side on a device, and the probe batches that it makes ready.

use std::sync::Arc;

use arrow::array::Array;
use cudarc::driver::CudaStream;

use super::alphabet::Alphabet;
use super::build_side::{Arrangement, BuildSide, describe};
use super::columns::{StringColumns, StringPacking};
use super::condition::{LONGEST, edit_test, is_only_filtered, longest_partner, longest_string, reaches};
use super::long_strings::{self, StringsOnHost};
use super::sorted::{Signer, SortedStrings};
use crate::block_ranges::{BlockRanges, BlockShape};
use crate::buffer::Buffer;
use crate::fault::Fault;
use crate::host_verify::keep_matches;
use crate::kernels::constants::signature_tile::STEP;
use crate::kernels::{Appended, BLOCK, EditCondition, Positions, Reach, StringSides, TaskList};
use crate::memory::Budget;
use crate::replicate::{Copying, Replicate};
use crate::scheduler::Scheduler;
use crate::tiled_index::{Batch, BatchOf, Build, OnHost, TiledIndex};
use crate::worker::{Capacity, Comparison, WORKERS, Workers};
use similarity_engine::strings::EditPredicate;
use similarity_engine::strings::features::{Signature, length_of};
use similarity_engine::views::string_views;
use similarity_engine::{BuildContext, Cancel, Counts, KeyColumn, Pairs, PrepareContext, Prepared};
use similarity_measures::EditKernel;

/// Words of a signature.
const WORDS: u32 = STEP;

const _: () = assert!(size_of::<Signature>() == WORDS as usize * size_of::<u32>());

/// Probe rows that one block of threads compares.
const ROWS_OF_TASK: u32 = 4 * BLOCK;

/// A build side's strings on a device, ready for probing with one predicate.
#[derive(Debug)]
pub(crate) struct StringIndex {
    build: Build<SortedStrings, BlockRanges>,
    predicate: EditPredicate,
    condition: EditCondition,
    decision: EditKernel,
    /// What `condition` points to.
    reaches: Buffer<Reach>,
    alphabet: Arc<Alphabet>,
    signer: Signer,
    /// Characters of the longest string of the build side, and of the longest one of a probe side that comes to the
    /// device.
    longest: usize,
    longest_partner: usize,
    /// Strings of the build side for what the host decides; `None` in a self-join that is decided on the device.
    host: Option<Arc<StringsOnHost>>,
    /// How many threads may.
    threads: usize,
}

/// The strings of a probe batch, of which some are too long for the device.
pub(crate) struct LongTexts {
    rows: Vec<u32>,
    /// All strings of the batch.
    host: StringsOnHost,
}

impl OnHost for LongTexts {
    fn len(&self) -> usize {
        self.rows.len()
    }
}

impl StringIndex {
    /// Brings the strings of `keys` to the device; `None` where some are too long for it.
    ///
    /// # Errors
    /// Keys that are no strings, more rows than 32 bits can number, a refused reservation, a cancelled build, a
    /// device that fails.
    pub(crate) fn try_new(
        budget: &Budget,
        predicate: EditPredicate,
        keys: &KeyColumn,
        context: &BuildContext<'_>,
    ) -> Result<Option<Self>, Fault> {
        let most = longest_string(&predicate);
        let arrangement = Arrangement { most, by_characters: predicate.is_jaro() };
        let stream = budget.device.stream()?;
        let Some(side) = BuildSide::try_new(budget, &stream, keys, arrangement, context)? else { return Ok(None) };
        let BuildSide { values, alphabet, signer, texts, longest, mean_length } = side;
        let longest_partner = longest_partner(&predicate, longest, most).max(LONGEST);
        let reaches = budget.upload(&stream, &reaches(&predicate, longest_partner))?;
        let (condition, decision) = edit_test(&predicate, reaches.address(&stream));
        let capacity = Capacity::of(budget, ROWS_OF_TASK, WORKERS).for_strings(ROWS_OF_TASK, mean_length);
        let workers = Workers::try_new(budget, capacity)?;
        let asks_host = !context.self_join || is_only_filtered(predicate.measure);
        let host = asks_host.then(|| Arc::new(StringsOnHost { values, groups: keys.groups.clone() }));
        let build = Build {
            budget: budget.clone(),
            unmatchable: texts.unmatchable,
            rows_at_once: budget.rows_at_once(texts.count as usize),
            side: texts,
            self_join: None,
            steps: Scheduler::new(workers),
        };
        let mut index = Self {
            build,
            predicate,
            condition,
            decision,
            reaches,
            alphabet,
            signer,
            longest,
            longest_partner,
            host,
            threads: context.probe_threads,
        };
        if context.self_join {
            index.build.self_join = Some(index.windows(&stream, None)?);
        }
        Ok(Some(index))
    }

    /// Which build blocks each block of `probe`, or of the build side itself, is compared with.
    fn windows(&self, stream: &Arc<CudaStream>, probe: Option<&SortedStrings>) -> Result<BlockRanges, Fault> {
        let (sides, Build { budget, side, .. }) = (self.sides(stream, probe), &self.build);
        let blocks = probe.unwrap_or(side).blocks();
        let shape = BlockShape { blocks, rows_of_task: ROWS_OF_TASK, words: WORDS };
        BlockRanges::fetch(budget, stream, shape, |out| {
            budget.device.kernels().strings()?.windows(stream, &sides, blocks, out)
        })
    }

    fn sides(&self, stream: &CudaStream, probe: Option<&SortedStrings>) -> StringSides {
        StringSides {
            probe: probe.unwrap_or(&self.build.side).on_device(stream),
            build: self.build.side.on_device(stream),
            condition: self.condition,
            decision: self.decision,
            is_small: self.alphabet.is_small(),
            self_join: probe.is_none(),
        }
    }
}

/// Two sides and the probe positions that count.
pub(crate) struct TextComparison<'a> {
    budget: &'a Budget,
    sides: StringSides,
    range: Positions,
}

impl Comparison for TextComparison<'_> {
    fn filter(
        &self,
        stream: &Arc<CudaStream>,
        tasks: TaskList<'_>,
        candidates: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        self.budget.device.kernels().strings()?.filter(stream, &self.sides, tasks, self.range, candidates)
    }

    fn verify(
        &self,
        stream: &Arc<CudaStream>,
        candidates: &Appended<'_>,
        pairs: &mut Appended<'_>,
    ) -> Result<(), Fault> {
        self.budget.device.kernels().strings()?.verify(stream, &self.sides, candidates, pairs)
    }
}

impl TiledIndex for StringIndex {
    type Side = SortedStrings;
    type WorkSplit = BlockRanges;
    type OnHost = LongTexts;
    type Comparison<'a> = TextComparison<'a>;

    fn build(&self) -> &Build<SortedStrings, BlockRanges> {
        &self.build
    }

    fn chosen(&self) -> String {
        let but = if is_only_filtered(self.predicate.measure) { ", decided on the cpu" } else { "" };
        describe(&self.build.budget.device, &self.signer, but)
    }

    fn held(&self) -> usize {
        let windows = self.build.self_join.as_ref().map_or(0, BlockRanges::memory);
        let host = self.host.as_ref().map_or(0, |host| {
            host.values.get_array_memory_size() + host.groups.as_ref().map_or(0, Vec::capacity) * size_of::<u32>()
        });
        self.alphabet.memory() + host + windows
    }

    fn replicate(&self, to: &Copying<'_>) -> Result<Self, Fault> {
        let reaches = self.reaches.replicate(to)?;
        let (condition, decision) = edit_test(&self.predicate, reaches.address(to.stream));
        Ok(Self {
            build: self.build.replicate(to, |windows| Ok(windows.clone()))?,
            predicate: self.predicate,
            condition,
            decision,
            reaches,
            alphabet: Arc::clone(&self.alphabet),
            signer: self.signer.replicate(to)?,
            longest: self.longest,
            longest_partner: self.longest_partner,
            host: self.host.clone(),
            threads: self.threads,
        })
    }

    fn bring(&self, keys: &KeyColumn, context: &PrepareContext<'_>) -> Result<Prepared<BatchOf<Self>>, Fault> {
        let budget = &self.build.budget;
        let values = string_views(&keys.values)?;
        let by = StringPacking { alphabet: &self.alphabet, most: self.longest_partner };
        let columns = StringColumns::pack(&values, keys.groups.as_deref(), by, context.threads)?;
        context.cancel.check()?;
        let stream = budget.device.stream()?;
        let side = SortedStrings::try_new(budget, &stream, &columns, &self.signer)?;
        let cut = self.windows(&stream, Some(&side))?;
        let host = StringsOnHost { values, groups: keys.groups.clone().filter(|_| !columns.long.is_empty()) };
        let on_host = LongTexts { rows: columns.long, host };
        let unmatchable = side.unmatchable;
        Ok(Batch { side, cut, on_host }.prepared(unmatchable))
    }

    fn comparison<'a>(
        &'a self,
        stream: &CudaStream,
        (probe, _): (Option<&SortedStrings>, &BlockRanges),
        range: Positions,
    ) -> TextComparison<'a> {
        TextComparison { budget: &self.build.budget, sides: self.sides(stream, probe), range }
    }

    fn decide(&self, probe: Option<&BatchOf<Self>>, first: usize, cancel: &Cancel, out: &mut Pairs) {
        if let Some(build) = self.host.as_ref().filter(|_| is_only_filtered(self.predicate.measure)) {
            let probe = probe.map_or(build.as_ref(), |batch| &batch.on_host.host);
            let stop = || cancel.is_cancelled();
            keep_matches(first, (self.threads, cancel), out, |one, other| {
                let (one, other) = (build.values.value(one), probe.values.value(other));
                self.predicate.matches(one, other, length_of(one).max(length_of(other)), &stop)
            });
        }
    }

    fn compare_on_host(&self, long: &LongTexts, at: usize, cancel: &Cancel, out: &mut Pairs) -> Counts {
        self.host.as_ref().map_or_else(Counts::default, |build| {
            long_strings::compare(&self.predicate, (build, self.longest), (&long.host, long.rows[at]), cancel, out)
        })
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::test_device::device;
    use crate::test_oracle::strings::*;
    use crate::tiled_index::Tiled;
    use crate::worker::least;
    use similarity_engine::NO_GROUP;
    use similarity_engine::condition::Bounds;
    use similarity_engine::{Cursor, Index as _, PairIndex as _, Probe};
    use similarity_measures::EditMeasure;

    fn try_index(
        predicate: EditPredicate,
        keys: &KeyColumn,
        self_join: bool,
        share: f64,
    ) -> Result<Option<StringIndex>, Fault> {
        let (cancel, reserve) = (Cancel::default(), |_| Ok(()));
        let context = BuildContext { self_join, ..BuildContext::new(2, &cancel, &reserve) };
        StringIndex::try_new(&Budget::new(&device(), share), predicate, keys, &context)
    }

    fn index(predicate: EditPredicate, keys: &KeyColumn, self_join: bool) -> Tiled<StringIndex> {
        Tiled::new(try_index(predicate, keys, self_join, 0.5).unwrap().unwrap())
    }

    fn levenshtein(k: f64) -> EditPredicate {
        EditPredicate { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(k, true) }
    }

    /// Both kinds of join against the oracle.
    fn agrees(predicate: EditPredicate, build: (&Values, &Groups), probe: (&Values, &Groups)) -> usize {
        let (build_keys, probe_keys) = (key_column(build.0, build.1), key_column(probe.0, probe.1));
        let (self_join, two_sides) = (oracle(predicate, build, build, true), oracle(predicate, build, probe, false));
        let self_index = index(predicate, &build_keys, true);
        assert_eq!(self_join_pairs(&self_index, usize::MAX), self_join, "{predicate:?}");
        assert_eq!(self_join_pairs(&self_index, 37), self_join, "{predicate:?}");
        assert_eq!(batch(&index(predicate, &build_keys, false), &probe_keys, 100), two_sides, "{predicate:?}");
        self_join.len() + two_sides.len()
    }

    #[test]
    fn every_predicate_finds_what_a_nested_loop_finds() {
        for (case, predicate) in predicates().into_iter().enumerate() {
            let mut rng = StdRng::seed_from_u64(case as u64);
            let (build, probe) = (strings(150, &mut rng), strings(90, &mut rng));
            let mut groups = |rows: usize| -> Groups {
                let count = [0, 1, 3, 20][case % 4];
                let mut group = || if rng.random_bool(0.1) { NO_GROUP } else { rng.random_range(0..count) };
                (count > 0).then(|| (0..rows).map(|_| group()).collect())
            };
            let (of_build, of_probe) = (groups(150), groups(90));
            agrees(predicate, (&build, &of_build), (&probe, &of_probe));
        }
    }

    /// Strings of up to `length` characters of an alphabet, many of them some edits away from an earlier one.
    fn noisy(rows: usize, length: usize, alphabet: &[char], rng: &mut StdRng) -> Values {
        let mut all: Vec<Vec<char>> = Vec::new();
        let character = |rng: &mut StdRng| alphabet[rng.random_range(0..alphabet.len())];
        for row in 0..rows {
            let mut text = match row % 3 {
                0 => (0..rng.random_range(length / 2..=length)).map(|_| character(rng)).collect(),
                _ => all[row - 1].clone(),
            };
            for _ in 0..rng.random_range(0..1 + length / 20) {
                let at = rng.random_range(0..text.len());
                match rng.random_range(0..4) {
                    0 if text.len() < length => text.insert(at, character(rng)),
                    1 if at + 1 < text.len() => text.swap(at, at + 1),
                    2 if text.len() > 1 => drop(text.remove(at)),
                    _ => text[at] = character(rng),
                }
            }
            all.push(text);
        }
        all.into_iter().map(|text| Some(text.into_iter().collect())).collect()
    }

    /// A predicate of each measure that accepts strings with about `share` of their characters edited.
    fn tolerant(share: f64, length: usize) -> Vec<EditPredicate> {
        let bounds = |measure: EditMeasure| match measure.is_distance() {
            true => Bounds::at_most(share * length as f64, true),
            false => Bounds::at_least(1.0 - share, true),
        };
        EditMeasure::ALL.iter().map(|&measure| EditPredicate { measure, bounds: bounds(measure) }).collect()
    }

    #[test]
    fn strings_of_all_lengths() {
        let mut rng = StdRng::seed_from_u64(3);
        for length in [3, 40, 64, 65, 128, 200, 500, LONGEST, 1100, longest_string(&levenshtein(9.0))] {
            let letters: Vec<char> = ('a'..='h').collect();
            let rows = [60, 24, 9, 6][[200, LONGEST, 2000].iter().filter(|&&most| length > most).count()];
            let (build, probe) = (noisy(rows, length, &letters, &mut rng), noisy(rows / 3, length, &letters, &mut rng));
            let probe = probe.into_iter().chain(build.iter().take(10).cloned()).collect();
            for share in [0.04, 0.3].map(|share| if length <= LONGEST { share } else { 400.0 * share / length as f64 })
            {
                let is_short = |p: &EditPredicate| length < 500 || !is_only_filtered(p.measure);
                let served = tolerant(share, length).into_iter().filter(|p| longest_string(p) >= length && is_short(p));
                let found = served.map(|p| agrees(p, (&build, &None), (&probe, &None)));
                assert!(found.sum::<usize>() > if length > LONGEST { 8 } else { 50 }, "{length}");
            }
        }
    }

    /// Edits that lead as far from the diagonal as is kept.
    #[test]
    fn paths_to_either_end_of_what_is_kept() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut letters = |count: usize| (0..count).map(|_| rng.random_range(b'a'..=b'p') as char).collect::<String>();
        let mut values: Values = Vec::new();
        for length in [1030, 2500] {
            let text = letters(length);
            values.push(Some(text.clone()));
            for (before, behind) in [(510, 0), (255, 255), (0, 510), (64, 446), (500, 11)] {
                values.push(Some(letters(before) + &text[..length - behind]));
                values.push(Some(text[before..].to_owned() + &letters(behind)));
                values.push(Some(text[..length / 2].to_owned() + &letters(before) + &text[length / 2..]));
            }
        }
        let mut found = 0;
        for k in [255.0, 510.0] {
            for measure in [EditMeasure::LEVENSHTEIN, EditMeasure::OSA] {
                let predicate = EditPredicate { measure, bounds: Bounds::at_most(k, true) };
                found += agrees(predicate, (&values, &None), (&values, &None));
            }
        }
        assert!(found > 250, "{found}");
    }

    /// A transposition around an insertion is two edits, three plain ones.
    #[test]
    fn the_host_decides_what_a_device_cannot_count() {
        let mut values: Values = (0..40).map(|row| Some(format!("row {row} of ca and more of it"))).collect();
        values.extend((0..40).map(|row| Some(format!("row {row} of abc and more of it"))));
        let measure = EditMeasure::DAMERAU_LEVENSHTEIN;
        for (k, matches) in [(1.0, false), (2.0, true)] {
            let predicate = EditPredicate { measure, bounds: Bounds::at_most(k, true) };
            agrees(predicate, (&values, &None), (&values, &None));
            let index = index(predicate, &key_column(&values, &None), true);
            assert!(index.info().path.ends_with("decided on the cpu)"));
            let (mut all, mut pairs) = (Cursor { next: 0, end: index.info().self_join_len }, Pairs::default());
            let mut counts = Counts::default();
            while !all.is_done() {
                let more = index.probe(Probe::SelfJoin, &mut all, UNLIMITED, &Cancel::default(), &mut pairs).unwrap();
                counts.verified += more.verified;
                counts.matched += more.matched;
            }
            assert_eq!(counts.matched, pairs.len());
            assert!(counts.verified > counts.matched);
            let is_same = |(build, probe): (&u32, &u32)| build.abs_diff(*probe) == 40;
            assert_eq!(pairs.build.iter().zip(&pairs.probe).filter(|pair| is_same(*pair)).count() == 40, matches);
        }
    }

    #[test]
    fn alphabets_of_all_sizes() {
        let mut rng = StdRng::seed_from_u64(4);
        for count in [1, 2, 255, 256, 257, 3000, 60_000] {
            let letters: Vec<char> = ('\u{20}'..).take(count).collect();
            // of a larger alphabet: some characters are unknown to the build side
            let others: Vec<char> = ('\u{10}'..).take(count + 40).collect();
            let (build, mut probe) = (noisy(70, 24, &letters, &mut rng), noisy(40, 24, &others, &mut rng));
            probe.extend(build.iter().take(20).map(|text| text.as_ref().map(|text| format!("\u{10ffff}{text}"))));
            for predicate in tolerant(0.15, 24) {
                agrees(predicate, (&build, &None), (&probe, &None));
            }
        }
    }

    #[test]
    fn strings_too_long_for_the_device() {
        let mut rng = StdRng::seed_from_u64(5);
        let letters: Vec<char> = ('a'..='e').collect();
        let mut build = noisy(30, LONGEST, &letters, &mut rng);
        let fill = |text: &mut String| (text.len()..LONGEST).for_each(|at| text.push(letters[at % 5]));
        build.iter_mut().step_by(4).flatten().for_each(fill);
        let mut probe = build.clone();
        probe.iter_mut().flatten().for_each(|text| text.push_str("abcde"));
        assert!(probe.iter().flatten().filter(|text| text.len() > LONGEST).count() >= 8);
        let groups: Groups = Some((0..30).map(|row| if row % 9 == 0 { NO_GROUP } else { row % 2 }).collect());
        // with more edits than are few they are too long for any measure but one
        for predicate in tolerant(0.5, LONGEST)
            .into_iter()
            .filter(|p| ![EditMeasure::HAMMING, EditMeasure::DAMERAU_LEVENSHTEIN].contains(&p.measure))
        {
            assert_eq!(longest_string(&predicate), LONGEST);
            for groups in [&None, &groups] {
                agrees(predicate, (&build, groups), (&probe, groups));
                assert!(try_index(predicate, &key_column(&probe, groups), true, 0.5).unwrap().is_none());
            }
        }
    }

    #[test]
    fn larger_sides_with_many_groups() {
        let values = numbered(3000);
        for count in [0, 7, 900] {
            let groups: Groups = (count > 0).then(|| (0..3000).map(|row| row * 7919 % 1500 % count).collect());
            let expected = oracle(levenshtein(2.0), (&values, &groups), (&values, &groups), true);
            assert!(expected.len() >= 1500);
            let keys = key_column(&values, &groups);
            assert_eq!(self_join_pairs(&index(levenshtein(2.0), &keys, true), usize::MAX), expected);
            let by_jaro = EditPredicate { measure: EditMeasure::JARO, bounds: Bounds::at_least(0.95, true) };
            let expected = oracle(by_jaro, (&values, &groups), (&values, &groups), true);
            assert_eq!(self_join_pairs(&index(by_jaro, &keys, true), 1000), expected);
        }
    }

    #[test]
    fn the_filter_keeps_few_pairs() {
        let values = numbered(3000);
        let index = index(levenshtein(2.0), &key_column(&values, &None), true);
        let (mut cursor, mut pairs) = (Cursor { next: 0, end: 3000 }, Pairs::default());
        let counts = index.probe(Probe::SelfJoin, &mut cursor, UNLIMITED, &Cancel::default(), &mut pairs).unwrap();
        assert!(counts.matched >= 1500 && counts.candidates < 2 * counts.matched, "{counts:?}");
    }

    #[test]
    fn what_does_not_fit_into_the_buffers_is_done_in_pieces() {
        let values: Values = (0..2500).map(|row| Some(format!("the same string {}", row % 2))).collect();
        let mut small = index(levenshtein(1.0), &key_column(&values, &None), true);
        let least = least(ROWS_OF_TASK);
        small.index.build.steps = Scheduler::new(
            Workers::try_new(
                &small.build.budget,
                Capacity { workers: WORKERS, candidates: least, pairs: least, enough: usize::MAX },
            )
            .unwrap(),
        );
        assert_eq!(self_join_pairs(&small, usize::MAX).len(), 2500 * 2499 / 2);
    }

    #[test]
    fn empty_sides() {
        let (none, null) = (key_column(&vec![], &None), key_column(&vec![None, None], &None));
        let some = key_column(&vec![Some("a".into()), Some(String::new())], &None);
        for predicate in predicates() {
            for keys in [&none, &null] {
                assert!(self_join_pairs(&index(predicate, keys, true), 1).is_empty());
                assert!(batch(&index(predicate, keys, false), &some, 1).is_empty());
                assert!(batch(&index(predicate, &some, false), keys, 1).is_empty());
            }
        }
    }

    #[test]
    fn too_little_memory_is_a_fault() {
        let keys = key_column(&numbered(500), &None);
        assert!(matches!(try_index(levenshtein(2.0), &keys, true, 1e-9), Err(Fault::Memory)));
    }

    #[test]
    fn several_threads_share_the_workers() {
        let keys = key_column(&numbered(2000), &None);
        let index = index(levenshtein(2.0), &keys, true);
        let expected = self_join_pairs(&index, usize::MAX);
        std::thread::scope(|scope| {
            let found: Vec<_> = (0..6).map(|_| scope.spawn(|| self_join_pairs(&index, 300))).collect();
            found.into_iter().for_each(|found| assert_eq!(found.join().unwrap(), expected));
        });
    }
}
