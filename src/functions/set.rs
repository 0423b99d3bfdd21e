//! Set measures over two lists, or over the q-grams of two strings.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::arguments;
use super::documentation;
use super::lists::{ListArgument, element_type};
use super::strings::StringArgument;
use super::token_sets::{Interner, TokenSets, overlap};
use similarity_measures::{Overlap, Parameter, SetMeasure, qgrams};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::{Float64, Int64, Utf8};
    let function = |&measure: &SetMeasure| {
        let mut types = vec![Utf8, Utf8];
        types.extend(measure.descriptor().parameters.iter().map(|_| Float64));
        let with_q = [types.as_slice(), &[Int64]].concat();
        let signature = arguments::signature([types.as_slice(), &with_q]);
        Arc::new(ScalarUDF::from(SetFunction { measure, signature }))
    };
    // pg_trgm's measure is a function of its own
    SetMeasure::ALL.iter().filter(|measure| measure.descriptor().tokenizer.is_none()).map(function).collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SetFunction {
    /// The measure, without its constants.
    measure: SetMeasure,
    signature: Signature,
}

impl ScalarUDFImpl for SetFunction {
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
        Ok(if self.measure.descriptor().is_count { DataType::Int64 } else { DataType::Float64 })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let result = self.return_type(&arguments::types(&args))?;
        let constant = |at: usize| args.scalar_arguments.get(at).copied().flatten();
        for (at, parameter) in (2..).zip(self.parameters()) {
            arguments::check_weight(self.name(), parameter, constant(at))?;
        }
        arguments::check_integer(self.name(), "q", constant(self.place_of_q()), arguments::GRAM_LENGTHS)?;
        Ok(Arc::new(Field::new(self.name(), result, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments::rows(&args);
        let (Some(measure), Some((left, right))) = (self.with_constants(&args)?, self.sets(&args, rows)?) else {
            return arguments::result(&args, new_null_array(args.return_field.data_type(), rows));
        };
        let scores = (0..rows).map(|row| {
            let (l, r) = (left.at(row)?, right.at(row)?);
            Some(measure.score(Overlap { common: overlap(l, r), left: l.len(), right: r.len() }))
        });
        let array: ArrayRef = match measure.descriptor().is_count {
            true => Arc::new(scores.map(|s| s.map(|o| o as i64)).collect::<Int64Array>()),
            false => Arc::new(scores.collect::<Float64Array>()),
        };
        arguments::result(&args, array)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl SetFunction {
    fn parameters(&self) -> &'static [Parameter] {
        self.measure.descriptor().parameters
    }

    /// Number of arguments before q.
    fn place_of_q(&self) -> usize {
        2 + self.parameters().len()
    }

    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let place_of_q = self.place_of_q();
        arguments::count(self.name(), types, place_of_q..=place_of_q + 1)?;
        let (left, right) = (&types[0], &types[1]);
        let are_lists = element_type(left).is_some() || element_type(right).is_some();
        let mut coerced = match are_lists {
            true => self.common_lists(left, right)?,
            false => arguments::strings(self.name(), &types[..2])?,
        };
        for (parameter, data_type) in self.parameters().iter().zip(&types[2..]) {
            coerced.push(arguments::number(self.name(), parameter.name, data_type)?);
        }
        match (types.get(place_of_q), are_lists) {
            (None, _) => {}
            (Some(q), false) => coerced.push(arguments::integer(self.name(), "q", q)?),
            (Some(_), true) => {
                let place = ["third", "fourth", "fifth"][self.parameters().len()];
                return plan_err!("{}: q is for strings; two lists take no {place} argument", self.name());
            }
        }
        Ok(coerced)
    }

    /// The measure with the constants of the call; `None` where one is NULL.
    fn with_constants(&self, args: &ScalarFunctionArgs) -> Result<Option<SetMeasure>> {
        let weights = arguments::constant_weights(self.name(), self.parameters(), &args.args[2..])?;
        Ok(weights.and_then(|weights| self.measure.with(&weights)))
    }

    /// Two list types with a common element type.
    fn common_lists(&self, left: &DataType, right: &DataType) -> Result<Vec<DataType>> {
        let element = match (element_type(left), element_type(right)) {
            (Some(l), Some(r)) => common_element(l, r).ok_or_else(|| {
                plan_datafusion_err!("{}: lists of {l} and of {r} have no common element type", self.name())
            })?,
            (Some(e), None) if right.is_null() => e.clone(),
            (None, Some(e)) if left.is_null() => e.clone(),
            _ => return plan_err!("{} takes two lists or two strings, got {left} and {right}", self.name()),
        };
        Ok([left, right].map(|list| of_elements(list, &element)).into())
    }

    /// The sets of both sides; `None` where q is NULL.
    fn sets(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<Option<(TokenSets, TokenSets)>> {
        let mut interner = Interner::default();
        let [left, right, ..] = args.args.as_slice() else { return plan_err!("{} takes two sets", self.name()) };
        if element_type(&left.data_type()).is_some() {
            let mut sets =
                |value| TokenSets::of_lists(&ListArgument::try_new(self.name(), value)?, rows, &mut interner);
            return Ok(Some((sets(left)?, sets(right)?)));
        }
        let q = match args.args.get(self.place_of_q()) {
            None => 1,
            Some(q) => match arguments::constant_integer(self.name(), "q", q, arguments::GRAM_LENGTHS)? {
                Some(q) => usize::try_from(q).unwrap_or(usize::MAX),
                None => return Ok(None),
            },
        };
        let mut scratch = String::new();
        let mut sets = |value| -> Result<TokenSets> {
            let strings = StringArgument::try_new(self.name(), value)?;
            let tokenise = |text: &str, emit: &mut dyn FnMut(&str)| qgrams::qgrams(text, q, None, &mut scratch, emit);
            Ok(TokenSets::of_strings(&strings, rows, &mut interner, tokenise))
        };
        Ok(Some((sets(left)?, sets(right)?)))
    }
}

fn common_element(left: &DataType, right: &DataType) -> Option<DataType> {
    if left == right { Some(left.clone()) } else { comparison_coercion(left, right) }
}

/// The list type with another element type; fixed-size lists become lists where their elements change, and views of
/// lists do always.
fn of_elements(list: &DataType, element: &DataType) -> DataType {
    match list {
        DataType::ListView(_) => DataType::new_list(element.clone(), true),
        DataType::LargeListView(_) => DataType::new_large_list(element.clone(), true),
        _ if element_type(list) == Some(element) => list.clone(),
        DataType::LargeList(_) => DataType::new_large_list(element.clone(), true),
        _ => DataType::new_list(element.clone(), true),
    }
}
