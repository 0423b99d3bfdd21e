//! Set measures as values: all that SQL functions, engines and kernels ask of a measure stands in its descriptor.
//!
//! A measure is one file, which holds its `score` and its descriptor `MEASURE`, and one line of the table below. Its
//! kernel is `kernels/measure/<file>.cuh`; `kernels/build.py` reads the table and numbers the kernels by it.

use crate::set_descriptor::{Overlap, SetBounds, SetDescriptor};
use crate::{Weights, containment, dice, jaccard, overlap_coefficient, overlap_count, set_cosine, trigram, tversky};

/// A measure over two finite sets, determined by their sizes and the size of their intersection.
///
/// For fixed sizes the score does not fall when the overlap grows, but for rounding. For a fixed overlap it never rises
/// with either size. Of all partners of one size, a set scores best with one that holds it or is held by it; that best
/// score rises with the partner's size up to the set's own, and does not rise beyond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SetMeasure {
    kind: Kind,
    weights: Weights,
    /// Whether the left set is the second argument of the SQL function.
    is_reversed: bool,
}

macro_rules! set_measures {
    (|$overlap:ident, $weights:ident| $($(#[$doc:meta])+ $name:ident = $module:ident($($argument:ident),+);)+) => {
        /// The measures by their numbers in kernels.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "the names of the constants")]
        enum Kind {
            $($name),+
        }

        impl Kind {
            #[inline]
            fn score(self, $overlap: Overlap, $weights: Weights) -> f64 {
                match self {
                    $(Self::$name => $module::score($($argument),+),)+
                }
            }

            /// Score of the descriptor, known where the measure is.
            #[inline]
            fn is_monotone(self) -> bool {
                match self {
                    $(Self::$name => const { $module::MEASURE.is_monotone },)+
                }
            }

            fn descriptor(self) -> &'static SetDescriptor {
                match self {
                    $(Self::$name => &$module::MEASURE,)+
                }
            }
        }

        impl SetMeasure {
            $($(#[$doc])+ pub const $name: Self = Self::of(Kind::$name, &$module::MEASURE);)+

            /// Every measure, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

// read by kernels/build.py
set_measures! { |overlap, weights|
    /// `o / (|a| + |b| - o)`
    JACCARD = jaccard(overlap);
    /// `2 o / (|a| + |b|)`
    DICE = dice(overlap);
    /// `o / sqrt(|a| |b|)`
    SET_COSINE = set_cosine(overlap);
    /// `o / min(|a|, |b|)`
    OVERLAP_COEFFICIENT = overlap_coefficient(overlap);
    /// `o`
    OVERLAP_COUNT = overlap_count(overlap);
    /// pg_trgm's `similarity`: Jaccard in single precision, widened when compared
    TRIGRAM = trigram(overlap);
    /// `o / |a|`
    CONTAINMENT = containment(overlap);
    /// `o / (o + alpha (|a| - o) + beta (|b| - o))`
    TVERSKY = tversky(overlap, weights);
}

impl SetMeasure {
    const fn of(kind: Kind, descriptor: &SetDescriptor) -> Self {
        Self { kind, weights: Weights::defaults(descriptor.parameters), is_reversed: false }
    }

    /// The measure of the SQL function with this name; its constants are the defaults, or 0.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|measure| measure.name() == name)
    }

    /// Descriptor of the measure.
    pub fn descriptor(self) -> &'static SetDescriptor {
        self.kind.descriptor()
    }

    /// Name of the SQL function.
    pub fn name(self) -> &'static str {
        self.descriptor().name
    }

    /// Number by which kernels know the measure.
    pub fn number(self) -> u32 {
        self.kind as u32
    }

    /// The measure with these constants, one for each of its parameters but those with a default, if they are in range.
    pub fn with(self, weights: &[f64]) -> Option<Self> {
        Some(Self { weights: Weights::of(self.descriptor().parameters, weights)?, ..self })
    }

    /// Constants of the measure.
    pub fn weights(self) -> Weights {
        self.weights
    }

    /// Whether the score never falls when the overlap grows, to the last bit; see [`SetDescriptor::is_monotone`].
    #[inline]
    pub fn is_monotone(self) -> bool {
        self.kind.is_monotone()
    }

    /// The measure of the sets in the other order; itself where that is the same.
    pub fn reversed(self) -> Self {
        Self { is_reversed: !self.is_reversed && !self.descriptor().is_symmetric, ..self }
    }

    /// Whether the left set is the second argument of the SQL function.
    pub fn is_reversed(self) -> bool {
        self.is_reversed
    }

    /// The score of two sets.
    ///
    /// Either set empty scores 0.
    #[inline]
    pub fn score(self, overlap: Overlap) -> f64 {
        self.kind.score(if self.is_reversed { overlap.reversed() } else { overlap }, self.weights)
    }

    /// Jaccard similarity that sets have at least whose score is at least `least`.
    pub fn jaccard_floor(self, least: f64) -> f64 {
        (self.descriptor().jaccard_floor)(least, self.weights)
    }

    /// Bounds that follow from a score of at least `least`.
    pub fn bounds(self, least: f64) -> SetBounds {
        let SetDescriptor { is_count, bounds, .. } = self.descriptor();
        let bounds = bounds(if *is_count { least.max(0.0) } else { least.clamp(0.0, 1.0) }, self.weights);
        if self.is_reversed { bounds.reversed() } else { bounds }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LeastOverlap;

    const WEIGHTS: [f64; 10] = [0.0, 1e-320, 1e-16, 1e-10, 0.2, 0.5, 1.0, 3.0, 1e10, Weights::LARGEST];

    /// Every measure, with constants of all sizes, in both orders of its arguments.
    fn measures() -> impl Iterator<Item = SetMeasure> {
        let with_all = |measure: &'static SetMeasure| {
            let mut all: Vec<Vec<f64>> = vec![vec![]];
            for _ in measure.descriptor().parameters {
                all = all.iter().flat_map(|some| WEIGHTS.map(|weight| [some.as_slice(), &[weight]].concat())).collect();
            }
            all.into_iter().filter_map(|weights| measure.with(&weights))
        };
        SetMeasure::ALL.iter().flat_map(with_all).flat_map(|measure| [measure, measure.reversed()])
    }

    #[test]
    fn constants_are_those_of_the_parameters() {
        assert!(SetMeasure::JACCARD.with(&[]).is_some() && SetMeasure::JACCARD.with(&[0.5]).is_none());
    }

    fn overlaps(most: usize) -> impl Iterator<Item = Overlap> {
        let sizes = (0..=most).flat_map(move |left| (0..=most).map(move |right| (left, right)));
        sizes.flat_map(|(left, right)| (0..=left.min(right)).map(move |common| Overlap { common, left, right }))
    }

    #[test]
    fn names_and_numbers_are_those_of_the_table() {
        for (number, measure) in SetMeasure::ALL.iter().enumerate() {
            assert_eq!((measure.number() as usize, SetMeasure::named(measure.name())), (number, Some(*measure)));
            assert_eq!(measure.descriptor().doc.name(), measure.name());
        }
        assert_eq!(SetMeasure::named("levenshtein"), None);
    }

    #[test]
    fn a_measure_is_symmetric_where_its_descriptor_says_so() {
        for measure in measures() {
            let differs = |overlap: Overlap| measure.score(overlap) != measure.score(overlap.reversed());
            assert!(!measure.descriptor().is_symmetric || !overlaps(24).any(differs), "{measure:?}");
            assert_eq!(measure.reversed() == measure, measure.descriptor().is_symmetric);
            assert_eq!(measure.reversed().reversed(), measure);
            let turned = |overlap: Overlap| measure.reversed().score(overlap) == measure.score(overlap.reversed());
            assert!(overlaps(24).all(turned), "{measure:?}");
        }
        for asymmetric in SetMeasure::ALL.iter().filter(|measure| !measure.descriptor().is_symmetric) {
            let mut same = measures().filter(|measure| measure.name() == asymmetric.name());
            let differs = |measure: SetMeasure| {
                overlaps(24).any(|overlap| measure.score(overlap) != measure.score(overlap.reversed()))
            };
            assert!(same.any(differs), "{asymmetric:?}");
        }
    }

    #[test]
    fn scores_are_shares_or_counts_and_rise_with_the_overlap() {
        for (measure, overlap) in measures().flat_map(|measure| overlaps(24).map(move |overlap| (measure, overlap))) {
            let score = measure.score(overlap);
            assert!(score >= 0.0 && score.is_sign_positive(), "{measure:?} {overlap:?}");
            assert!(measure.descriptor().is_count || score <= 1.0, "{measure:?} {overlap:?}");
            assert!(overlap.common > 0 || score == 0.0, "{measure:?} {overlap:?}");
            let Some(less) = overlap.common.checked_sub(1) else { continue };
            let most = if measure.is_monotone() { score } else { score * (1.0 + 1e-12) };
            assert!(measure.score(Overlap { common: less, ..overlap }) <= most, "{measure:?} {overlap:?}");
            for smaller in [
                Overlap { left: overlap.left.max(overlap.common + 1) - 1, ..overlap },
                Overlap { right: overlap.right.max(overlap.common + 1) - 1, ..overlap },
            ] {
                assert!(measure.score(smaller) * (1.0 + 1e-12) >= score, "{measure:?} {overlap:?}");
            }
        }
    }

    #[test]
    fn bounds_lose_no_pair() {
        let thresholds = [1e-9, 0.1, 0.3, 1.0 / 3.0, 0.5, 2.0 / 3.0, 0.8, 0.999_999, 1.0, 1.5, 2.0, 7.0, f64::INFINITY];
        for (measure, least) in measures().flat_map(|m| thresholds.map(|least| (m, least))) {
            let SetBounds { overlap: needed, left_of_right, right_of_left } = measure.bounds(least);
            for overlap in overlaps(24).filter(|o| o.common > 0 && measure.score(*o) >= least) {
                let Overlap { common, left, right } = overlap;
                let [common, left, right] = [common, left, right].map(|number| number as f64 * (1.0 + 1e-9));
                let needed = match needed {
                    LeastOverlap::Linear { left: l, right: r } => l * left + r * right,
                    LeastOverlap::GeometricMean(share) => share * (left * right).sqrt(),
                    LeastOverlap::Smaller(share) => share * left.min(right),
                    LeastOverlap::Constant(number) => number,
                };
                assert!(common * (1.0 + 1e-9) >= needed, "{measure:?} {least} {overlap:?}");
                assert!(left * (1.0 + 1e-9) >= left_of_right * right, "{measure:?} {least} {overlap:?}");
                assert!(right * (1.0 + 1e-9) >= right_of_left * left, "{measure:?} {least} {overlap:?}");
                let jaccard = jaccard::score(overlap);
                assert!(jaccard * (1.0 + 1e-6) >= measure.jaccard_floor(least), "{measure:?} {least} {overlap:?}");
            }
        }
    }
}
