//! A set condition as kernels read it.

use crate::accepted::Accepted;
use crate::kernels::SetTest;
use similarity_engine::sets::SetPredicate;
use similarity_measures::SetMeasure;

/// What the least overlap is proportional to, numbered as `Form` in `kernels/measure/set_measure.cuh`.
#[derive(Clone, Copy)]
enum Form {
    Sum,
    GeometricMean,
    Smaller,
    Constant,
}

/// Bounds on a measure.
pub(crate) fn set_test(SetPredicate { measure, bounds }: SetPredicate) -> SetTest {
    let Accepted { lower, upper, lower_inclusive, upper_inclusive } = Accepted::of(bounds);
    let t = lower.max(0.0);
    // the score of trigrams is rounded to single precision, up perhaps
    let (number, form, share, smallest) = match measure {
        SetMeasure::Jaccard => (0, Form::Sum, t / (1.0 + t), t),
        SetMeasure::Trigram => {
            let t = t * (1.0 - 1e-6);
            (5, Form::Sum, t / (1.0 + t), t)
        }
        SetMeasure::Dice => (1, Form::Sum, t / 2.0, t / (2.0 - t).max(1.0)),
        SetMeasure::Cosine => (2, Form::GeometricMean, t, t * t),
        SetMeasure::OverlapCoefficient => (3, Form::Smaller, t, 0.0),
        SetMeasure::OverlapCount => (4, Form::Constant, t, 0.0),
    };
    // beyond these no set matches any, which the measure itself says
    let [share, smallest] = [share, smallest].map(|factor| if factor.is_finite() { factor } else { 1.0 });
    SetTest {
        lower,
        upper,
        share,
        smallest: smallest.min(1.0),
        measure: number,
        form: form as u32,
        lower_inclusive,
        upper_inclusive,
    }
}
