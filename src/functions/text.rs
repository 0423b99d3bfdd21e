//! Normalisation of text: what a query applies before it compares.

use std::sync::Arc;

use datafusion::arrow::array::new_null_array;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::arguments;
use super::documentation;
use super::strings::{StringArgument, map_strings};
use similarity_measures::normalize::{NormalForm, normalize};
use similarity_measures::{casefold, unaccent};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::Utf8;
    let text = |kind| Arc::new(ScalarUDF::from(TextFunction { kind, signature: arguments::signature([&[Utf8]]) }));
    let normalize = Normalize { signature: arguments::signature([&[Utf8], &[Utf8, Utf8]]) };
    vec![text(Kind::Unaccent), text(Kind::Casefold), Arc::new(ScalarUDF::from(normalize))]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Unaccent,
    Casefold,
}

/// A string from a string.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TextFunction {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for TextFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Unaccent => "unaccent",
            Kind::Casefold => "casefold",
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
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let strings = StringArgument::try_new(self.name(), &args.args[0])?;
        let map = match self.kind {
            Kind::Unaccent => unaccent::unaccent,
            Kind::Casefold => casefold::casefold,
        };
        arguments::result(&args, map_strings(self.name(), &strings, arguments::rows(&args), map)?)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl TextFunction {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 1..=1)?;
        arguments::strings(self.name(), types)
    }
}

/// `normalize(s [, form])`
#[derive(Debug, PartialEq, Eq, Hash)]
struct Normalize {
    signature: Signature,
}

impl ScalarUDFImpl for Normalize {
    fn name(&self) -> &str {
        "normalize"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::accepted_or_given(self.accepted(types), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.accepted(types)?;
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let result = self.return_type(&arguments::types(&args))?;
        let form = args.scalar_arguments.get(1).copied().flatten();
        form.and_then(ScalarValue::try_as_str).flatten().map(parse_form).transpose()?;
        Ok(Arc::new(Field::new(self.name(), result, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments::rows(&args);
        let form = match args.args.get(1) {
            None => Some("NFC".to_owned()),
            Some(form) => arguments::constant_string(self.name(), "form", form)?,
        };
        let Some(form) = form else { return arguments::result(&args, new_null_array(&DataType::Utf8, rows)) };
        let form = parse_form(&form)?;
        let strings = StringArgument::try_new(self.name(), &args.args[0])?;
        arguments::result(&args, map_strings(self.name(), &strings, rows, |s| normalize(s, form))?)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl Normalize {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 1..=2)?;
        arguments::strings(self.name(), types)
    }
}

fn parse_form(form: &str) -> Result<NormalForm> {
    form.parse().map_err(|_| plan_datafusion_err!("normalize: form has to be one of NFC, NFD, NFKC, NFKD"))
}
