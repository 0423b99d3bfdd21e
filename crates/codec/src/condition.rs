//! Measures, and the scores that they accept.

use datafusion::common::Result;
use datafusion_similarity::predicate::{self, VectorCondition};
use similarity_measures::{EditMeasure, Power, SetMeasure, Tokenizer, VectorMeasure};

use crate::envelope::malformed;
use crate::messages::{Bound, Bounds, Condition, Keyed, Sets, Strings, Tokens, Vectors};

/// The power of `lp_distance`, which has no name of its own among measures.
const LP: &str = "lp_distance";

pub fn to_message(condition: &predicate::Condition) -> Condition {
    let bounds = Some(bounds_to_message(condition.bounds()));
    match *condition {
        predicate::Condition::Set { tokenizer, measure, .. } => {
            let (tokens, q, pad) = match tokenizer {
                Tokenizer::Elements => (Tokens::Elements, 0, None),
                Tokenizer::Words => (Tokens::Words, 0, None),
                Tokenizer::QGrams { q, pad } => (Tokens::QGrams, q as u64, pad.map(u32::from)),
                Tokenizer::Trigrams => (Tokens::Trigrams, 0, None),
            };
            let constants = measure.weights().get()[..measure.descriptor().parameters.len()].to_vec();
            let sets = Sets { is_reversed: measure.is_reversed(), tokens: tokens.into(), q, pad };
            Condition { measure: measure.name().into(), constants, bounds, keyed: Some(Keyed::Sets(sets)) }
        }
        predicate::Condition::Edit { measure, .. } => {
            let constants = measure.weights().get()[..measure.descriptor().parameters.len()].to_vec();
            Condition { measure: measure.name().into(), constants, bounds, keyed: Some(Keyed::Strings(Strings {})) }
        }
        predicate::Condition::Vector(VectorCondition { measure, undecided_from, .. }) => {
            let (measure, constants) = match measure {
                VectorMeasure::Lp(power) => (LP, vec![power.get()]),
                measure => (measure.name(), Vec::new()),
            };
            let vectors = Vectors { undecided_from: undecided_from.map(u32::from) };
            Condition { measure: measure.into(), constants, bounds, keyed: Some(Keyed::Vectors(vectors)) }
        }
    }
}

pub fn from_message(message: &Condition) -> Result<predicate::Condition> {
    let Condition { measure: name, constants, bounds, keyed } = message;
    let bounds = bounds_from_message(bounds.as_ref());
    let unknown = || malformed(&format!("this release has no measure '{name}' with {} constants", constants.len()));
    match keyed {
        Some(Keyed::Sets(sets)) => {
            let measure = SetMeasure::named(name).and_then(|measure| measure.with(constants)).ok_or_else(unknown)?;
            let measure = if sets.is_reversed { measure.reversed() } else { measure };
            Ok(predicate::Condition::Set { tokenizer: tokenizer(sets)?, measure, bounds })
        }
        Some(Keyed::Strings(_)) => {
            let measure = EditMeasure::named(name).and_then(|measure| measure.with(constants)).ok_or_else(unknown)?;
            Ok(predicate::Condition::Edit { measure, bounds })
        }
        Some(Keyed::Vectors(vectors)) => {
            let measure = match (name.as_str(), constants.as_slice()) {
                (LP, [power]) => Power::new(*power).map(VectorMeasure::Lp),
                (name, []) => VectorMeasure::named(name),
                _ => None,
            };
            let undecided_from = vectors.undecided_from.map(u16::try_from).transpose();
            Ok(predicate::Condition::Vector(VectorCondition {
                measure: measure.ok_or_else(unknown)?,
                bounds,
                undecided_from: undecided_from.map_err(|_| malformed("a power of two is out of range"))?,
            }))
        }
        None => Err(malformed("a condition does not say what it is about")),
    }
}

fn tokenizer(sets: &Sets) -> Result<Tokenizer> {
    Ok(match Tokens::try_from(sets.tokens) {
        Ok(Tokens::Elements) => Tokenizer::Elements,
        Ok(Tokens::Words) => Tokenizer::Words,
        Ok(Tokens::Trigrams) => Tokenizer::Trigrams,
        Ok(Tokens::QGrams) => {
            let q = usize::try_from(sets.q).ok().filter(|&q| q > 0);
            let pad = sets.pad.map(|pad| char::from_u32(pad).ok_or_else(|| malformed("a padding is no character")));
            Tokenizer::QGrams { q: q.ok_or_else(|| malformed("grams have no length"))?, pad: pad.transpose()? }
        }
        Err(_) => return Err(malformed("this release does not know the tokens of a set")),
    })
}

pub fn bounds_to_message(bounds: predicate::Bounds) -> Bounds {
    let bound = |bound: predicate::Bound| Bound { value: bound.value, inclusive: bound.inclusive };
    Bounds { lower: bounds.lower().map(bound), upper: bounds.upper().map(bound) }
}

pub fn bounds_from_message(message: Option<&Bounds>) -> predicate::Bounds {
    let Some(Bounds { lower, upper }) = message else { return predicate::Bounds::everything() };
    let lower = lower.as_ref().map(|bound| predicate::Bounds::at_least(bound.value, bound.inclusive));
    let upper = upper.as_ref().map(|bound| predicate::Bounds::at_most(bound.value, bound.inclusive));
    lower.into_iter().chain(upper).fold(predicate::Bounds::everything(), predicate::Bounds::and)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_comes_back() {
        let bounds = predicate::Bounds::at_least(0.5, true).and(predicate::Bounds::at_most(1.0, false));
        let tokenizers = [
            Tokenizer::Elements,
            Tokenizer::Words,
            Tokenizer::Trigrams,
            Tokenizer::QGrams { q: 3, pad: Some('é') },
            Tokenizer::QGrams { q: 2, pad: None },
        ];
        let sets = SetMeasure::ALL.iter().flat_map(|measure| [*measure, measure.reversed()]);
        let sets = sets
            .flat_map(|measure| tokenizers.map(|tokenizer| predicate::Condition::Set { tokenizer, measure, bounds }));
        let edits = EditMeasure::ALL.iter().map(|&measure| predicate::Condition::Edit { measure, bounds });
        let vectors = [
            VectorMeasure::L1,
            VectorMeasure::L2,
            VectorMeasure::Linf,
            VectorMeasure::Lp(Power::new(2.5).unwrap()),
            VectorMeasure::Cosine,
            VectorMeasure::CosineDistance,
            VectorMeasure::InnerProduct,
        ];
        let vectors = [None, Some(400)].into_iter().flat_map(|undecided_from| {
            vectors.map(|measure| predicate::Condition::Vector(VectorCondition { measure, bounds, undecided_from }))
        });
        let weighted = SetMeasure::TVERSKY.with(&[0.25, 3.0]).unwrap();
        let weighted = predicate::Condition::Set { tokenizer: Tokenizer::Words, measure: weighted, bounds };
        for condition in sets.chain(edits).chain(vectors).chain([weighted]) {
            assert_eq!(from_message(&to_message(&condition)).unwrap(), condition);
        }
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let good = to_message(&predicate::Condition::Edit { measure: EditMeasure::ALL[0], bounds: Default::default() });
        let bad = [
            Condition { measure: "soundex".into(), ..good.clone() },
            Condition { constants: vec![1.0, 2.0, 3.0], ..good.clone() },
            Condition { keyed: None, ..good.clone() },
            Condition { keyed: Some(Keyed::Vectors(Vectors { undecided_from: Some(1 << 20) })), ..good },
        ];
        for message in bad {
            assert!(from_message(&message).is_err(), "{message:?}");
        }
    }
}
