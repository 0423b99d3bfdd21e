//! Distances between vectors: lists of numbers, compared in double precision.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::arguments;
use super::documentation;
use super::lists::{ListArgument, element_type};
use similarity_measures::{cosine, l1, l2, linf, lp};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    // of the list types, information_schema has names for fixed sizes only
    let vector = DataType::new_fixed_size_list(DataType::Float64, 3, true);
    let pair = [vector.clone(), vector.clone()];
    let signature = |kind| match kind {
        Kind::Lp => arguments::signature([&[vector.clone(), vector.clone(), DataType::Float64]]),
        _ => arguments::signature([&pair]),
    };
    let function = |kind| Arc::new(ScalarUDF::from(VectorFunction { kind, signature: signature(kind) }));
    [Kind::L1, Kind::L2, Kind::Linf, Kind::Lp, Kind::Cosine].map(function).into()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    L1,
    L2,
    Linf,
    Lp,
    Cosine,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct VectorFunction {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for VectorFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::L1 => "l1_distance",
            Kind::L2 => "l2_distance",
            Kind::Linf => "linf_distance",
            Kind::Lp => "lp_distance",
            Kind::Cosine => "cosine_similarity",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::accepted_or_given(self.accepted(types), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.accepted(types)?;
        Ok(DataType::Float64)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let result = self.return_type(&arguments::types(&args))?;
        if let Some(p) = args.scalar_arguments.get(2).copied().flatten()
            && let ScalarValue::Float64(Some(p)) = p.cast_to(&DataType::Float64)?
            && !is_norm(p)
        {
            return plan_err!("{}: p has to be at least 1, it is {p}", self.name());
        }
        Ok(Arc::new(Field::new(self.name(), result, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let left = Vectors::try_new(self.name(), &args.args[0])?;
        let right = Vectors::try_new(self.name(), &args.args[1])?;
        let p = args.args.get(2).map(|p| p.to_array(args.number_rows)).transpose()?;
        let p = p.as_ref().map(|p| p.as_primitive::<Float64Type>());
        let distance = |row| {
            let (Some(a), Some(b)) = (left.at(row), right.at(row)) else { return Ok(None) };
            if a.len() != b.len() {
                return exec_err!("{}: the vectors have {} and {} elements", self.name(), a.len(), b.len());
            }
            Ok(match self.kind {
                Kind::L1 => l1::l1_distance(a, b),
                Kind::L2 => l2::l2_distance(a, b),
                Kind::Linf => linf::linf_distance(a, b),
                Kind::Cosine => cosine::cosine_similarity(a, b),
                Kind::Lp => match p.filter(|p| p.is_valid(row)).map(|p| p.value(row)) {
                    None => None,
                    Some(p) if is_norm(p) => lp::lp_distance(a, b, p),
                    Some(p) => return exec_err!("{}: p has to be at least 1, it is {p}", self.name()),
                },
            })
        };
        let distances = (0..arguments::rows(&args)).map(distance).collect::<Result<Float64Array>>()?;
        arguments::result(&args, Arc::new(distances))
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl VectorFunction {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let wanted = if self.kind == Kind::Lp { 3 } else { 2 };
        arguments::count(self.name(), types, wanted..=wanted)?;
        let (left, right) = (vector(self.name(), 0, &types[0])?, vector(self.name(), 1, &types[1])?);
        if let (DataType::FixedSizeList(_, l), DataType::FixedSizeList(_, r)) = (&left, &right)
            && l != r
        {
            return plan_err!("{}: the vectors have {l} and {r} elements", self.name());
        }
        let mut coerced = vec![left, right];
        match types.get(2) {
            None => {}
            Some(p) if p.is_numeric() || p.is_null() => coerced.push(DataType::Float64),
            Some(p) => return plan_err!("{}: p has to be a number, it is {p}", self.name()),
        }
        Ok(coerced)
    }
}

/// Only from 1 on is it a distance: below, the triangle inequality fails.
fn is_norm(p: f64) -> bool {
    p >= 1.0
}

/// A list type with elements of type Float64.
pub(super) fn vector(function: &str, index: usize, data_type: &DataType) -> Result<DataType> {
    let numeric = |element: &DataType| element.is_numeric() || element.is_null();
    match (data_type, element_type(data_type)) {
        (DataType::Null, _) => Ok(DataType::new_list(DataType::Float64, true)),
        (DataType::LargeList(_) | DataType::LargeListView(_), Some(e)) if numeric(e) => {
            Ok(DataType::new_large_list(DataType::Float64, true))
        }
        (DataType::FixedSizeList(_, n), Some(e)) if numeric(e) => {
            Ok(DataType::new_fixed_size_list(DataType::Float64, *n, true))
        }
        (DataType::List(_) | DataType::ListView(_), Some(e)) if numeric(e) => {
            Ok(DataType::new_list(DataType::Float64, true))
        }
        _ => plan_err!("{function}: argument {} has to be a list of numbers, it is {data_type}", index + 1),
    }
}

/// Vectors by row.
pub(super) struct Vectors {
    lists: ListArgument,
    elements: Float64Array,
}

impl Vectors {
    pub(super) fn try_new(function: &str, value: &ColumnarValue) -> Result<Self> {
        let lists = ListArgument::try_new(function, value)?;
        let Some(elements) = lists.elements().as_primitive_opt::<Float64Type>().cloned() else {
            return exec_err!("{function} takes lists of numbers, got {}", lists.elements().data_type());
        };
        Ok(Self { lists, elements })
    }

    /// The vector in `row`; `None` for NULL and where an element is NULL.
    pub(super) fn at(&self, row: usize) -> Option<&[f64]> {
        let places = self.lists.at(row)?;
        let has_null = self.elements.nulls().is_some_and(|n| places.clone().any(|place| n.is_null(place)));
        (!has_null).then(|| &self.elements.values()[places])
    }
}
