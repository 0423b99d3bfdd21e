//! Edit distances and similarities over two strings.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::arguments;
use super::documentation;
use super::strings::StringArgument;
use similarity_measures::{EditMeasure, Parameter, levenshtein};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::{Float64, Int64, Utf8};
    let function = |&measure: &EditMeasure| {
        let mut types = vec![Utf8, Utf8];
        types.extend(measure.descriptor().parameters.iter().map(|_| Float64));
        let examples: Vec<&[DataType]> = (2..=types.len()).map(|count| &types[..count]).collect();
        ScalarUDF::from(EditFunction { measure, signature: arguments::signature_of(&examples) })
    };
    // `levenshtein` has the types of DataFusion
    let ours = EditMeasure::ALL.iter().filter(|measure| measure.descriptor().doc.is_some());
    let less_equal = ScalarUDF::from(LevenshteinLessEqual { signature: arguments::signature([&[Utf8, Utf8, Int64]]) });
    ours.map(function).chain([less_equal]).map(Arc::new).collect()
}

/// One of the measures in the table of [`EditMeasure`].
#[derive(Debug, PartialEq, Eq, Hash)]
struct EditFunction {
    /// The measure with its default constants.
    measure: EditMeasure,
    signature: Signature,
}

impl ScalarUDFImpl for EditFunction {
    fn name(&self) -> &str {
        self.measure.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::accepted_or_given(self.accepted(types), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.accepted(types)?;
        Ok(if self.measure.is_distance() { DataType::Int64 } else { DataType::Float64 })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let result = self.return_type(&arguments::types(&args))?;
        for (parameter, constant) in self.parameters().iter().zip(args.scalar_arguments.iter().skip(2)) {
            arguments::check_weight(self.name(), parameter, *constant)?;
        }
        Ok(Arc::new(Field::new(self.name(), result, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments::rows(&args);
        let weights = arguments::constant_weights(self.name(), self.parameters(), &args.args[2..])?;
        let Some(measure) = weights.and_then(|weights| self.measure.with(&weights)) else {
            return arguments::result(&args, new_null_array(args.return_field.data_type(), rows));
        };
        let left = StringArgument::try_new(self.name(), &args.args[0])?;
        let right = StringArgument::try_new(self.name(), &args.args[1])?;
        let scores = (0..rows).map(|row| measure.score(left.at(row)?, right.at(row)?));
        let array: ArrayRef = match self.measure.is_distance() {
            true => Arc::new(scores.map(|score| score.map(|d| d as i64)).collect::<Int64Array>()),
            false => Arc::new(scores.collect::<Float64Array>()),
        };
        arguments::result(&args, array)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl EditFunction {
    fn parameters(&self) -> &'static [Parameter] {
        self.measure.descriptor().parameters
    }

    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 2..=2 + self.parameters().len())?;
        let mut coerced = arguments::strings(self.name(), &types[..2])?;
        for (parameter, data_type) in self.parameters().iter().zip(&types[2..]) {
            coerced.push(arguments::number(self.name(), parameter.name, data_type)?);
        }
        Ok(coerced)
    }
}

/// `levenshtein_less_equal(a, b, k)`: the distance, or `k + 1` once it exceeds `k`.
#[derive(Debug, PartialEq, Eq, Hash)]
struct LevenshteinLessEqual {
    signature: Signature,
}

impl ScalarUDFImpl for LevenshteinLessEqual {
    fn name(&self) -> &str {
        "levenshtein_less_equal"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::accepted_or_given(self.accepted(types), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.accepted(types)?;
        Ok(DataType::Int64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let result = self.return_type(&arguments::types(&args))?;
        arguments::check_integer(self.name(), "k", args.scalar_arguments.get(2).copied().flatten(), 0..=i64::MAX)?;
        Ok(Arc::new(Field::new(self.name(), result, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let left = StringArgument::try_new(self.name(), &args.args[0])?;
        let right = StringArgument::try_new(self.name(), &args.args[1])?;
        let k = arguments::constant_integer(self.name(), "k", &args.args[2], 0..=i64::MAX)?;
        let distance = |row| {
            let k = k?;
            let within = levenshtein::levenshtein_within(left.at(row)?, right.at(row)?, usize::try_from(k).ok()?);
            Some(within.map_or(k.saturating_add(1), |d| d as i64))
        };
        let array = (0..arguments::rows(&args)).map(distance).collect::<Int64Array>();
        arguments::result(&args, Arc::new(array))
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl LevenshteinLessEqual {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 3..=3)?;
        let mut coerced = arguments::strings(self.name(), &types[..2])?;
        coerced.push(arguments::integer(self.name(), "k", &types[2])?);
        Ok(coerced)
    }
}
