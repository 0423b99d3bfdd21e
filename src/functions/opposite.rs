//! `opposite_vector`: the vector that points the other way, of the same length.
//!
//! What makes vectors point away from each other makes one of them and the opposite of the other point the same way,
//! which an index knows. Only [`predicate`](crate::predicate) writes the function, into keys; it is not registered and
//! has no user documentation.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait};
use datafusion::arrow::compute::kernels::numeric::neg;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::lists::element_type;

const NAME: &str = "opposite_vector";

/// The opposite of `vector`, a list of Float64 of any kind.
pub fn opposite(vector: Expr) -> Expr {
    function().call(vec![vector])
}

/// The function itself.
pub fn function() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(Opposite::new())));
    Arc::clone(&FUNCTION)
}

/// Whether vectors of this type have an [`opposite`].
pub fn has_opposite(data_type: &DataType) -> bool {
    element_type(data_type) == Some(&DataType::Float64)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Opposite {
    signature: Signature,
}

impl Opposite {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Opposite {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [vector] if has_opposite(vector) => Ok(vector.clone()),
            _ => exec_err!("{NAME} takes one list of Float64"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let vectors = args.args[0].to_array(args.number_rows)?;
        let opposites: ArrayRef = match vectors.data_type() {
            DataType::List(_) => Arc::new(with_negated_elements::<i32>(vectors.as_list())?),
            DataType::LargeList(_) => Arc::new(with_negated_elements::<i64>(vectors.as_list())?),
            DataType::FixedSizeList(..) => {
                let (field, length, elements, nulls) = vectors.as_fixed_size_list().clone().into_parts();
                Arc::new(FixedSizeListArray::try_new(field, length, neg(&elements)?, nulls)?)
            }
            other => return exec_err!("{NAME} takes lists, got {other}"),
        };
        Ok(ColumnarValue::Array(opposites))
    }
}

fn with_negated_elements<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> Result<GenericListArray<O>> {
    let (field, offsets, elements, nulls) = lists.clone().into_parts();
    Ok(GenericListArray::try_new(field, offsets, neg(&elements)?, nulls)?)
}
