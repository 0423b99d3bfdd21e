//! `token_sort_ratio(a, b)`: the likeness of two strings whatever the order of their words.

use std::sync::Arc;

use datafusion::arrow::array::Float64Array;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

use super::arguments;
use super::documentation;
use super::strings::StringArgument;
use similarity_measures::token_sort_ratio::token_sort_ratio;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = arguments::signature([&[DataType::Utf8, DataType::Utf8]]);
    vec![Arc::new(ScalarUDF::from(TokenSortRatio { signature }))]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TokenSortRatio {
    signature: Signature,
}

impl ScalarUDFImpl for TokenSortRatio {
    fn name(&self) -> &str {
        "token_sort_ratio"
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let left = StringArgument::try_new(self.name(), &args.args[0])?;
        let right = StringArgument::try_new(self.name(), &args.args[1])?;
        let ratio = |row| Some(token_sort_ratio(left.at(row)?, right.at(row)?));
        let ratios = (0..arguments::rows(&args)).map(ratio).collect::<Float64Array>();
        arguments::result(&args, Arc::new(ratios))
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl TokenSortRatio {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 2..=2)?;
        arguments::strings(self.name(), types)
    }
}
