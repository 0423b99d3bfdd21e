//! `daitch_mokotoff(s)`: the codes of how a Slavic, German or Yiddish name sounds.

use std::sync::Arc;

use datafusion::arrow::array::{ListBuilder, StringBuilder};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

use super::arguments;
use super::documentation;
use super::strings::{ResultBytes, StringArgument};
use super::tokens::token_list;
use similarity_measures::daitch_mokotoff::daitch_mokotoff;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = arguments::signature([&[DataType::Utf8]]);
    vec![Arc::new(ScalarUDF::from(DaitchMokotoff { signature }))]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DaitchMokotoff {
    signature: Signature,
}

impl ScalarUDFImpl for DaitchMokotoff {
    fn name(&self) -> &str {
        "daitch_mokotoff"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::accepted_or_given(self.accepted(types), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.accepted(types)?;
        Ok(token_list())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let names = StringArgument::try_new(self.name(), &args.args[0])?;
        let mut bytes = ResultBytes::default();
        let mut lists = ListBuilder::new(StringBuilder::new());
        for row in 0..arguments::rows(&args) {
            let codes = names.at(row).map(daitch_mokotoff).unwrap_or_default();
            for code in &codes {
                bytes.add(self.name(), code)?;
                lists.values().append_value(code);
            }
            lists.append(!codes.is_empty());
        }
        arguments::result(&args, Arc::new(lists.finish()))
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl DaitchMokotoff {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 1..=1)?;
        arguments::strings(self.name(), types)
    }
}
