//! Edit measures as values: all that SQL functions, engines and kernels ask of a measure stands in its descriptor.
//!
//! A measure is one file, which holds its `score` and its descriptor `MEASURE`, and one line of the table below. The
//! table numbers the measures for kernels, too: `kernels/build.py` reads it.

use crate::edit_descriptor::{EditDescriptor, EditLimit, EditOperations, EditScale};
use crate::jaro_winkler::PrefixBoost;
use crate::{Weights, damerau_levenshtein, hamming, jaro, jaro_winkler, levenshtein, levenshtein_similarity, osa};

/// A measure over two strings, counted in Unicode scalar values. Each is symmetric, to the last bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EditMeasure {
    kind: Kind,
    weights: Weights,
}

macro_rules! edit_measures {
    (
        |$a:ident, $b:ident, $weights:ident, $limit:ident, $stop:ident|
        $(
            $(#[$doc:meta])+
            $name:ident = $module:ident($score:ident($($argument:ident),+), $within:ident($($part:ident),+));
        )+
    ) => {
        /// The measures by their numbers in kernels.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(non_camel_case_types, clippy::upper_case_acronyms, reason = "the names of the constants")]
        enum Kind {
            $($name),+
        }

        impl Kind {
            #[inline]
            fn score(self, $a: &str, $b: &str, $weights: Weights) -> Option<f64> {
                match self {
                    $(Self::$name => $module::$score($($argument),+),)+
                }
            }

            #[inline]
            fn score_within(
                self,
                $a: &str,
                $b: &str,
                $weights: Weights,
                $limit: EditLimit,
                $stop: &dyn Fn() -> bool,
            ) -> Option<f64> {
                match self {
                    $(Self::$name => $module::$within($($part),+),)+
                }
            }

            /// Scale of the descriptor, known where the measure is.
            #[inline]
            fn scale(self) -> EditScale {
                match self {
                    $(Self::$name => const { $module::MEASURE.scale },)+
                }
            }

            fn descriptor(self) -> &'static EditDescriptor {
                match self {
                    $(Self::$name => &$module::MEASURE,)+
                }
            }
        }

        impl EditMeasure {
            $($(#[$doc])+ pub const $name: Self = Self::of(Kind::$name, &$module::MEASURE);)+

            /// Every measure with its default constants, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

// read by kernels/build.py
edit_measures! { |a, b, weights, limit, stop|
    /// Insertions, deletions, substitutions.
    LEVENSHTEIN = levenshtein(score(a, b), score_within(a, b, limit, stop));
    /// `1 - levenshtein / max(len)`; 1 for two empty strings.
    LEVENSHTEIN_SIMILARITY = levenshtein_similarity(score(a, b), score_within(a, b, limit, stop));
    /// Optimal string alignment: adjacent transpositions, no substring edited twice.
    OSA = osa(score(a, b), score_within(a, b, limit, stop));
    /// Unrestricted Damerau-Levenshtein.
    DAMERAU_LEVENSHTEIN = damerau_levenshtein(score(a, b), score_within(a, b, limit, stop));
    /// Differing positions of two strings of equal length; undefined (NULL) for unequal lengths.
    HAMMING = hamming(score(a, b), score(a, b));
    /// Jaro.
    JARO = jaro(score(a, b), score(a, b));
    /// Jaro-Winkler.
    JARO_WINKLER = jaro_winkler(score(a, b, weights), score(a, b, weights));
}

impl EditMeasure {
    const fn of(kind: Kind, descriptor: &EditDescriptor) -> Self {
        Self { kind, weights: Weights::defaults(descriptor.parameters) }
    }

    /// The measure of the SQL function with this name; its constants are the defaults.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|measure| measure.name() == name)
    }

    /// Descriptor of the measure.
    pub fn descriptor(self) -> &'static EditDescriptor {
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

    /// The measure with the first constants of its parameters, the others being the defaults; `None` if one is out of
    /// range.
    pub fn with(self, weights: &[f64]) -> Option<Self> {
        Some(Self { weights: Weights::of(self.descriptor().parameters, weights)?, ..self })
    }

    /// Constants of the measure.
    #[inline]
    pub fn weights(self) -> Weights {
        self.weights
    }

    /// Whether all constants are the defaults.
    pub fn has_default_weights(self) -> bool {
        self.weights == Weights::defaults(self.descriptor().parameters)
    }

    /// What the score is made of.
    #[inline]
    pub fn scale(self) -> EditScale {
        self.kind.scale()
    }

    /// Whether smaller means closer.
    #[inline]
    pub fn is_distance(self) -> bool {
        matches!(self.scale(), EditScale::Distance(_))
    }

    /// Whether common characters and their order make the score, not edits.
    #[inline]
    pub fn is_jaro(self) -> bool {
        matches!(self.scale(), EditScale::Jaro { .. })
    }

    /// How a common prefix raises the score, where it does.
    #[inline]
    pub fn boost(self) -> Option<PrefixBoost> {
        (self.scale() == EditScale::Jaro { is_raised: true }).then(|| PrefixBoost::of(self.weights))
    }

    /// What one edit may change; `None` where no edits are counted.
    #[inline]
    pub fn operations(self) -> Option<EditOperations> {
        match self.scale() {
            EditScale::Distance(operations) | EditScale::Share(operations) => Some(operations),
            EditScale::Jaro { .. } => None,
        }
    }

    /// Whether strings of different lengths have no score.
    #[inline]
    pub fn needs_equal_lengths(self) -> bool {
        self.operations().is_some_and(|operations| !operations.shifts)
    }

    /// The score or distance, `None` where the SQL function is NULL.
    #[inline]
    pub fn score(self, a: &str, b: &str) -> Option<f64> {
        self.kind.score(a, b, self.weights)
    }

    /// [`score`](Self::score) of two strings that need not be known beyond `limit`, where it may be `None`.
    ///
    /// Once `stop` is true it may be `None`, too.
    #[inline]
    pub fn score_within(self, a: &str, b: &str, limit: EditLimit, stop: &dyn Fn() -> bool) -> Option<f64> {
        self.kind.score_within(a, b, self.weights, limit, stop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols;
    use crate::test_strings::pairs;

    #[test]
    fn names_and_numbers_are_those_of_the_table() {
        for (number, &measure) in EditMeasure::ALL.iter().enumerate() {
            assert_eq!((measure.number() as usize, EditMeasure::named(measure.name())), (number, Some(measure)));
            let doc = measure.descriptor().doc;
            assert!(doc.is_none_or(|doc| doc.name() == measure.name()));
            assert_eq!(doc.is_none(), measure == EditMeasure::LEVENSHTEIN);
        }
        assert_eq!(EditMeasure::named("jaccard"), None);
    }

    #[test]
    fn scores_within_a_limit_are_the_scores() {
        for (a, b) in pairs() {
            let longest = symbols::len(&a).max(symbols::len(&b));
            for &measure in EditMeasure::ALL {
                let score = measure.score(&a, &b);
                assert_eq!(score, measure.score(&b, &a), "{measure:?} {a:?} {b:?}");
                for edits in [0, 1, 2, 5, longest] {
                    let within = measure.score_within(&a, &b, EditLimit { edits, longest }, &|| false);
                    let needed = edits == longest || measure.is_jaro();
                    assert!(within == score || within.is_none() && !needed, "{measure:?} {a:?} {b:?} {edits}");
                }
            }
        }
    }

    #[test]
    fn an_edit_is_worth_no_more_plain_ones_than_its_measure_says() {
        for (a, b) in pairs() {
            let plain = levenshtein::levenshtein(&a, &b);
            for &measure in EditMeasure::ALL.iter().filter(|measure| measure.is_distance()) {
                let (Some(operations), Some(score)) = (measure.operations(), measure.score(&a, &b)) else { continue };
                assert!(plain <= operations.plain_edits * score as usize, "{measure:?} {a:?} {b:?}");
                assert!(!measure.needs_equal_lengths() || symbols::len(&a) == symbols::len(&b));
            }
        }
    }
}
