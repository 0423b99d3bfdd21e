//! Normalisation of text: what a query applies before it compares.

use std::sync::Arc;

use datafusion::arrow::array::new_null_array;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments;
use super::documentation;
use super::strings::{StringArgument, map_strings};
use crate::measure::normalize::{NormalForm, normalize};
use crate::measure::{casefold, unaccent};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = || Signature::user_defined(Volatility::Immutable);
    let text = |kind| Arc::new(ScalarUDF::from(TextFunction { kind, signature: signature() }));
    vec![text(Kind::Unaccent), text(Kind::Casefold), Arc::new(ScalarUDF::from(Normalize { signature: signature() }))]
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
        arguments::count(self.name(), types, 1..=1)?;
        arguments::strings(self.name(), types)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let strings = StringArgument::try_new(self.name(), &args.args[0])?;
        let map = match self.kind {
            Kind::Unaccent => unaccent::unaccent,
            Kind::Casefold => casefold::casefold,
        };
        arguments::result(&args, map_strings(&strings, arguments::rows(&args), map))
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
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
        arguments::count(self.name(), types, 1..=2)?;
        arguments::strings(self.name(), types)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let form = args.scalar_arguments.get(1).copied().flatten();
        form.and_then(ScalarValue::try_as_str).flatten().map(parse_form).transpose()?;
        Ok(Arc::new(Field::new(self.name(), DataType::Utf8, true)))
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
        arguments::result(&args, map_strings(&strings, rows, |s| normalize(s, form)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

fn parse_form(form: &str) -> Result<NormalForm> {
    form.parse().map_err(|_| plan_datafusion_err!("normalize: form has to be one of NFC, NFD, NFKC, NFKD"))
}
