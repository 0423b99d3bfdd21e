//! `weighted_similarity(s1, t1, w1, s2, t2, w2, .. [, mode])`: the weighted average of several similarities, of which
//! each counts from its threshold on.
//!
//! The value is the sum of `w * s` over the attributes with `s >= t`, added in the order of the arguments, divided by
//! the sum of the weights, added likewise. This order is the definition, to the last bit.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::arguments::{self, numbered_weight};
use super::documentation;

/// The name of the function.
pub(crate) const NAME: &str = "weighted_similarity";

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::{Float64, Utf8};
    let signature = arguments::signature([
        &[Float64, Float64, Float64],
        &[Float64, Float64, Float64, Utf8],
        &[Float64, Float64, Float64, Float64, Float64, Float64],
    ]);
    vec![Arc::new(ScalarUDF::from(WeightedSimilarity { signature }))]
}

/// What a similarity that is NULL counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Missing {
    /// 0, so that the average is over all weights.
    Zero,
    /// Nothing, so that the average is over the other weights.
    Skip,
}

/// The constants of one attribute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Attribute {
    /// The similarity from which on it counts, at most 1.
    pub threshold: f64,
    /// Weight from 0 to [`Weights::LARGEST`].
    pub weight: f64,
}

/// The constants of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Weighting {
    /// Attributes in the order of the arguments.
    pub attributes: Vec<Attribute>,
    /// What NULL counts as.
    pub missing: Missing,
}

impl Weighting {
    /// The constants of the call with these arguments, where all that have to be constant are literals and allowed.
    pub(crate) fn of(arguments: &[Expr]) -> Option<Self> {
        let constants = arguments.iter().map(|argument| match argument {
            Expr::Literal(value, _) => Some(value),
            _ => None,
        });
        Self::checked(&constants.collect::<Vec<_>>()).ok().flatten()
    }

    /// The constants among the arguments, `None` where one of them is not known yet.
    ///
    /// # Errors
    /// Where a known one is not allowed; the error names the argument.
    fn checked(arguments: &[Option<&ScalarValue>]) -> Result<Option<Self>> {
        let (attributes, mode) = arguments.as_chunks::<3>();
        let mut known = Some(Vec::with_capacity(attributes.len()));
        for (number, [_, threshold, weight]) in (1..).zip(attributes) {
            let threshold = threshold.map(|value| threshold_of(number, value)).transpose()?;
            let weight = weight.map(|value| numbered_weight(NAME, number, value)).transpose()?;
            match (&mut known, threshold.zip(weight)) {
                (Some(attributes), Some((threshold, weight))) => attributes.push(Attribute { threshold, weight }),
                (known, _) => *known = None,
            }
        }
        let missing = match mode {
            [] => Some(Missing::Zero),
            [mode, ..] => mode.map(missing_of).transpose()?,
        };
        let Some((attributes, missing)) = known.zip(missing) else { return Ok(None) };
        let weighting = Self { attributes, missing };
        if weighting.total() == 0.0 {
            return plan_err!("{NAME}: the weights must not all be 0");
        }
        Ok(Some(weighting))
    }

    /// The sum of all weights.
    pub(crate) fn total(&self) -> f64 {
        self.attributes.iter().fold(0.0, |total, attribute| total + attribute.weight)
    }

    /// The weighted average of the similarities of one pair, in the order of the attributes.
    pub(crate) fn average(&self, similarities: impl Iterator<Item = Option<f64>>) -> Option<f64> {
        let (mut sum, mut total) = (0.0, 0.0);
        for (Attribute { threshold, weight }, similarity) in self.attributes.iter().zip(similarities) {
            let similarity = similarity.filter(|similarity| similarity.is_finite());
            if similarity.is_some() || self.missing == Missing::Zero {
                total += weight;
            }
            if let Some(similarity) = similarity.filter(|similarity| similarity >= threshold) {
                sum += weight * similarity;
            }
        }
        let average = sum / total;
        (!average.is_nan()).then_some(average)
    }
}

fn number_of(value: &ScalarValue) -> Result<Option<f64>> {
    match value.cast_to(&DataType::Float64)? {
        ScalarValue::Float64(number) => Ok(number),
        _ => Ok(None),
    }
}

fn threshold_of(number: usize, value: &ScalarValue) -> Result<f64> {
    match number_of(value)? {
        Some(threshold) if threshold <= 1.0 => Ok(threshold),
        Some(threshold) => plan_err!("{NAME}: threshold {number} has to be at most 1, it is {threshold}"),
        None => plan_err!("{NAME}: threshold {number} has to be at most 1, it is NULL"),
    }
}

fn missing_of(value: &ScalarValue) -> Result<Missing> {
    match value.try_as_str().flatten() {
        Some("zero") => Ok(Missing::Zero),
        Some("skip") => Ok(Missing::Skip),
        Some(other) => plan_err!("{NAME}: mode has to be 'zero' or 'skip', it is '{other}'"),
        None => plan_err!("{NAME}: mode has to be 'zero' or 'skip', it is NULL"),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct WeightedSimilarity {
    signature: Signature,
}

impl ScalarUDFImpl for WeightedSimilarity {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::accepted_or_given(accepted(types), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        accepted(types)?;
        Ok(DataType::Float64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let result = self.return_type(&arguments::types(&args))?;
        Weighting::checked(args.scalar_arguments)?;
        Ok(Arc::new(Field::new(NAME, result, true)))
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        for (place, argument) in args.iter().enumerate() {
            let number = place / 3 + 1;
            match place % 3 {
                0 if place + 1 < args.len() => {}
                0 => arguments::refuse_columns(NAME, "mode", Some(argument))?,
                1 => arguments::refuse_columns(NAME, &format!("threshold {number}"), Some(argument))?,
                _ => arguments::refuse_columns(NAME, &format!("weight {number}"), Some(argument))?,
            }
        }
        Ok(ExprSimplifyResult::Original(args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constants = args.args.iter().map(|argument| match argument {
            ColumnarValue::Scalar(value) => Some(value),
            ColumnarValue::Array(_) => None,
        });
        let weighting = Weighting::checked(&constants.collect::<Vec<_>>())?;
        let Some(weighting) = weighting else {
            return Err(exec_datafusion_err!("{NAME}: thresholds, weights and mode have to be constants"));
        };
        let similarities = args.args.iter().step_by(3).take(weighting.attributes.len());
        let similarities: Vec<Similarities> = similarities.map(Similarities::try_new).collect::<Result<_>>()?;
        let average = |row| weighting.average(similarities.iter().map(|similarities| similarities.at(row)));
        let averages = (0..arguments::rows(&args)).map(average).collect::<Float64Array>();
        arguments::result(&args, Arc::new(averages))
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(NAME)
    }
}

/// The types as which arguments of these types are taken.
fn accepted(types: &[DataType]) -> Result<Vec<DataType>> {
    let (attributes, mode) = types.as_chunks::<3>();
    if attributes.is_empty() || mode.len() > 1 {
        return plan_err!(
            "{NAME} takes a similarity, a threshold and a weight for each attribute, and perhaps a mode; got {} arguments",
            types.len()
        );
    }
    let mut accepted = Vec::with_capacity(types.len());
    for (number, attribute) in (1..).zip(attributes) {
        for (kind, data_type) in ["similarity", "threshold", "weight"].into_iter().zip(attribute) {
            accepted.push(arguments::number(NAME, &format!("{kind} {number}"), data_type)?);
        }
    }
    if let [mode] = mode {
        accepted.push(arguments::string(NAME, types.len() - 1, mode)?);
    }
    Ok(accepted)
}

/// Similarities by row: a column, or a constant that stands in every row.
struct Similarities {
    values: Float64Array,
    constant: bool,
}

impl Similarities {
    fn try_new(value: &ColumnarValue) -> Result<Self> {
        let (array, constant) = match value {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(scalar) => (scalar.to_array_of_size(1)?, true),
        };
        let values = array.as_primitive_opt::<Float64Type>().cloned();
        let values = values.ok_or_else(|| exec_datafusion_err!("{NAME} takes numbers, got {}", array.data_type()))?;
        Ok(Self { values, constant })
    }

    #[inline]
    fn at(&self, row: usize) -> Option<f64> {
        let row = if self.constant { 0 } else { row };
        self.values.is_valid(row).then(|| self.values.value(row))
    }
}
