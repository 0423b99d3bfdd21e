//! What a similarity condition computes, whatever expressions its keys are.

use std::fmt;

use similarity_measures::{EditMeasure, SetMeasure, Tokenizer};

use super::{Bounds, VectorCondition};

/// What a similarity condition computes and which scores it accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Condition {
    /// The keys become sets.
    Set {
        /// How a key becomes a set, the same on both sides.
        tokenizer: Tokenizer,
        /// The measure over the two sets: in a plan the left one is that of the left input, in an engine that of the
        /// build row.
        measure: SetMeasure,
        /// The accepted scores.
        bounds: Bounds,
    },
    /// The keys are strings.
    Edit {
        /// The measure over the two strings.
        measure: EditMeasure,
        /// The accepted scores or distances.
        bounds: Bounds,
    },
    /// The keys are vectors.
    Vector(VectorCondition),
}

impl Condition {
    /// The accepted scores.
    pub fn bounds(&self) -> Bounds {
        match self {
            Self::Set { bounds, .. } | Self::Edit { bounds, .. } | Self::Vector(VectorCondition { bounds, .. }) => {
                *bounds
            }
        }
    }

    /// Whether the bounds exclude the least similar pairs, so that an access path can skip any.
    ///
    /// For sets these are pairs without a common element (blanks among them), which score 0.
    pub fn is_selective(&self) -> bool {
        match self {
            Self::Set { bounds, .. } => !bounds.above_lower(0.0),
            Self::Edit { measure, bounds } if measure.is_distance() => bounds.upper().is_some(),
            Self::Edit { bounds, .. } => !bounds.above_lower(0.0),
            Self::Vector(condition) => condition.is_selective(),
        }
    }

    /// The condition on the keys in the other order.
    pub fn reversed(self) -> Self {
        match self {
            Self::Set { tokenizer, measure, bounds } => Self::Set { tokenizer, measure: measure.reversed(), bounds },
            // the same either way
            Self::Edit { .. } | Self::Vector(_) => self,
        }
    }

    /// Whether a pair of keys passes in one order where it passes in the other.
    pub fn is_symmetric(&self) -> bool {
        self.reversed() == *self
    }

    /// Both keys in the order in which the measure takes them.
    pub fn in_order<K>(&self, left: K, right: K) -> (K, K) {
        match self {
            Self::Set { measure, .. } if measure.is_reversed() => (right, left),
            _ => (left, right),
        }
    }

    /// Whether this is the same measure and accepts every score that `other` accepts.
    pub fn accepts_all_of(&self, other: &Self) -> bool {
        self.and(*other).is_some_and(|both| both == *other)
    }

    /// This measure with both sets of bounds, where `other` is the same measure.
    pub fn and(self, other: Self) -> Option<Self> {
        self.merged(other, Bounds::and)
    }

    /// This measure with bounds that accept what either accepts, where `other` is the same measure.
    pub fn or(self, other: Self) -> Option<Self> {
        self.merged(other, Bounds::or)
    }

    fn merged(self, other: Self, merge: fn(Bounds, Bounds) -> Bounds) -> Option<Self> {
        match (self, other) {
            (Self::Set { tokenizer, measure, bounds }, Self::Set { tokenizer: t, measure: m, bounds: b })
                if t == tokenizer && m == measure =>
            {
                Some(Self::Set { tokenizer, measure, bounds: merge(bounds, b) })
            }
            (Self::Edit { measure, bounds }, Self::Edit { measure: m, bounds: b }) if m == measure => {
                Some(Self::Edit { measure, bounds: merge(bounds, b) })
            }
            (Self::Vector(one), Self::Vector(other)) => one.merged(other, merge).map(Self::Vector),
            _ => None,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set { tokenizer, measure, bounds } => {
                write!(f, "{}({}", measure.name(), describe_tokenizer(*tokenizer))?;
                let constants = measure.descriptor().parameters.iter().zip(measure.weights().get());
                constants.into_iter().try_for_each(|(_, weight)| write!(f, ", {weight}"))?;
                write!(f, ") {bounds}")
            }
            Self::Edit { measure, bounds } if measure.has_default_weights() => write!(f, "{} {bounds}", measure.name()),
            Self::Edit { measure, bounds } => {
                let constants = measure.descriptor().parameters.iter().zip(measure.weights().get());
                let constants: Vec<_> = constants.map(|(of, weight)| format!("{} = {weight}", of.name)).collect();
                write!(f, "{}({}) {bounds}", measure.name(), constants.join(", "))
            }
            Self::Vector(condition) => write!(f, "{condition}"),
        }
    }
}

fn describe_tokenizer(tokenizer: Tokenizer) -> String {
    match tokenizer {
        Tokenizer::Elements => "elements".into(),
        Tokenizer::Words => "words".into(),
        Tokenizer::QGrams { q, pad: None } => format!("{q}-grams"),
        Tokenizer::QGrams { q, pad: Some(_) } => format!("padded {q}-grams"),
        Tokenizer::Trigrams => "trigrams".into(),
    }
}
