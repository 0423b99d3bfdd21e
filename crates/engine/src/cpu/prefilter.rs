//! The first filter of a pair of rows: their sizes and signatures.
//!
//! A signature has a bit for each element of a value (a character, a token), several elements a bit. Every bit that
//! differs stands for an element that one value has and the other lacks, so that a predicate that bounds how many of
//! these there may be, by the two sizes, excludes a pair by one comparison.

use super::compact::Filter;
use crate::Pairs;
use crate::atoms::PrefilterRows;
use crate::cache::fetch;

/// Sizes from here on are not tabulated.
pub const LARGE: u32 = 64;
/// The class of a value that matches nothing (NULL, blank).
pub const NOTHING: u32 = LARGE + 1;
const CLASSES: usize = NOTHING as usize + 1;

/// The class of a size.
pub fn class(size: u32) -> u32 {
    size.min(LARGE)
}

/// What two values may differ in.
#[derive(Debug)]
pub struct MaxDifferences {
    /// Allowed differences by the classes of a probe and a build value; -1 where they cannot match.
    bits: Box<[[i8; CLASSES]; CLASSES]>,
}

impl MaxDifferences {
    /// Allowance by what `differing` says for a build and a probe size; large ones may differ in everything.
    pub fn new(differing: impl Fn(u32, u32) -> Option<i64>) -> Self {
        let mut bits = Box::new([[-1; CLASSES]; CLASSES]);
        for (probe, row) in (0..NOTHING).zip(bits.iter_mut()) {
            for (build, bits) in (0..NOTHING).zip(row) {
                let allowed = if build.max(probe) == LARGE { Some(i64::MAX) } else { differing(build, probe) };
                *bits = allowed.map_or(-1, |allowed| allowed.clamp(-1, i64::from(i8::MAX)) as i8);
            }
        }
        Self { bits }
    }

    /// What any of several allows.
    pub fn any<'a>(allowances: impl Iterator<Item = &'a Self>) -> Self {
        let mut any = Self { bits: Box::new([[-1; CLASSES]; CLASSES]) };
        for allowance in allowances {
            for (bits, more) in any.bits.as_flattened_mut().iter_mut().zip(allowance.bits.as_flattened()) {
                *bits = (*bits).max(*more);
            }
        }
        any
    }

    /// Differences by the class of a probe value and then that of a build value; -1 where they cannot match.
    pub fn by_classes(&self) -> &[i8] {
        self.bits.as_flattened()
    }

    /// Whether a build and a probe value, each its signature and class, may match.
    #[inline(always)]
    pub fn admits(&self, build: (u64, u32), probe: (u64, u32)) -> bool {
        let differing = (build.0 ^ probe.0).count_ones() as i8;
        differing <= self.bits[probe.1 as usize][build.1 as usize]
    }
}

/// What a side holds of a row.
pub trait Sketch: Copy {
    /// The signature and the class. Has to be inlined always.
    fn near(self) -> (u64, u32);
}

/// The pairs of a block that an allowance admits.
pub struct Prefilter<'a, B> {
    pub allowance: &'a MaxDifferences,
    pub build: &'a [B],
    pub probe: &'a [B],
    pub block: &'a Pairs,
}

impl<B: Sketch> Filter for Prefilter<'_, B> {
    #[inline(always)]
    fn holds(&self, place: u16) -> bool {
        let pair = self.block.at(place);
        self.allowance.admits(self.build[pair.build as usize].near(), self.probe[pair.probe as usize].near())
    }
}

/// The signatures and classes of all rows.
pub fn prefilter_rows(sketches: &[impl Sketch]) -> PrefilterRows {
    let (signatures, classes) =
        sketches.iter().map(|sketch| sketch.near()).map(|(signature, class)| (signature, class as u8)).unzip();
    PrefilterRows { signatures, classes }
}

/// How many rows ahead are fetched.
const AHEAD: usize = 16;

/// The signatures and classes of some rows, side by side.
#[derive(Debug, Default)]
pub struct Lanes {
    signatures: Vec<u64>,
    classes: Vec<u8>,
}

impl Lanes {
    /// Forgets what there was, and takes what `sketches` holds of each row.
    pub fn gather(&mut self, rows: &[u32], sketches: &[impl Sketch]) {
        self.signatures.clear();
        self.classes.clear();
        for (at, &row) in rows.iter().enumerate() {
            if let Some(&ahead) = rows.get(at + AHEAD) {
                fetch(sketches, ahead as usize);
            }
            let (signature, class) = sketches[row as usize].near();
            self.signatures.push(signature);
            self.classes.push(class as u8);
        }
    }

    /// The signature and the class in a lane.
    #[inline]
    pub fn at(&self, lane: usize) -> (u64, u32) {
        (self.signatures[lane], u32::from(self.classes[lane]))
    }

    /// Sets `bits` for each lane of `lanes` that may match a probe value; returns for how many.
    pub fn mark(
        &self,
        allowance: &MaxDifferences,
        probe: (u64, u32),
        lanes: std::ops::Range<usize>,
        bits: u64,
        marks: &mut [u64],
    ) -> usize {
        let allowed = &allowance.bits[probe.1 as usize];
        let lanes = self.signatures[lanes.clone()].iter().zip(&self.classes[lanes]).zip(marks);
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("popcnt") {
            #[target_feature(enable = "popcnt")]
            fn counting<'a>(
                lanes: impl Iterator<Item = ((&'a u64, &'a u8), &'a mut u64)>,
                allowed: &[i8; CLASSES],
                signature: u64,
                bits: u64,
            ) -> usize {
                each(lanes, allowed, signature, bits)
            }
            // SAFETY: the feature has been detected.
            return unsafe { counting(lanes, allowed, probe.0, bits) };
        }
        each(lanes, allowed, probe.0, bits)
    }
}

#[inline(always)]
fn each<'a>(
    lanes: impl Iterator<Item = ((&'a u64, &'a u8), &'a mut u64)>,
    allowed: &[i8; CLASSES],
    signature: u64,
    bits: u64,
) -> usize {
    let mut marked = 0;
    for ((other, class), mark) in lanes {
        let differing = (other ^ signature).count_ones() as i8;
        let may = differing <= allowed[*class as usize];
        *mark |= if may { bits } else { 0 };
        marked += usize::from(may);
    }
    marked
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Sketch for (u64, u32) {
        #[inline(always)]
        fn near(self) -> (u64, u32) {
            self
        }
    }

    #[test]
    fn any_of_two() {
        let [one, two] = [1, 4].map(|most| MaxDifferences::new(move |build, _| (build > 1).then_some(most)));
        let any = MaxDifferences::any([&one, &two].into_iter());
        assert!(any.admits((0b1111, 2), (0, 1)) && !any.admits((0b1_1111, 2), (0, 1)) && !any.admits((0, 1), (0, 2)));
    }

    #[test]
    fn lanes_agree_with_pairs() {
        let allowance = MaxDifferences::new(|build, probe| (build.abs_diff(probe) < 2).then_some(i64::from(probe)));
        let rows: Vec<(u64, u32)> = (0..=NOTHING).map(|class| (0x1234_5678_9abc_def0 >> (class / 2), class)).collect();
        let mut lanes = Lanes::default();
        lanes.gather(&(0..=NOTHING).collect::<Vec<_>>(), &rows);
        assert_eq!(lanes.at(7), rows[7]);
        for &probe in &rows {
            let mut marks = vec![1u64; rows.len() - 3];
            let marked = lanes.mark(&allowance, probe, 3..rows.len(), 4, &mut marks);
            assert_eq!(marked, marks.iter().filter(|&&mark| mark == 5).count());
            for (&build, mark) in rows[3..].iter().zip(marks) {
                assert_eq!(mark, if allowance.admits(build, probe) { 5 } else { 1 });
            }
        }
        assert!(allowance.admits((1, LARGE), (u64::MAX, 3)));
        assert!(!allowance.admits((1, NOTHING), (1, LARGE)));
        assert!(!allowance.admits((0b111, 2), (0, 2)) && allowance.admits((0b11, 2), (0, 2)));
    }
}
