//! Functions from a string to its tokens.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListBuilder, StringBuilder, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::arguments;
use super::documentation;
use super::strings::StringArgument;
use crate::measure::{qgrams, word_tokens};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = || Signature::user_defined(Volatility::Immutable);
    vec![
        Arc::new(ScalarUDF::from(WordTokens { signature: signature() })),
        Arc::new(ScalarUDF::from(QGrams { signature: signature() })),
    ]
}

/// A list of strings.
pub(super) fn token_list() -> DataType {
    DataType::new_list(DataType::Utf8, true)
}

/// One list a row: what `tokenise` emits for the string in it.
pub(super) fn tokens_of(
    strings: &StringArgument,
    rows: usize,
    mut tokenise: impl FnMut(&str, &mut dyn FnMut(&str)),
) -> ArrayRef {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..rows {
        if let Some(text) = strings.at(row) {
            tokenise(text, &mut |token| lists.values().append_value(token));
        }
        lists.append(strings.at(row).is_some());
    }
    Arc::new(lists.finish())
}

/// `word_tokens(s)`
#[derive(Debug, PartialEq, Eq, Hash)]
struct WordTokens {
    signature: Signature,
}

impl ScalarUDFImpl for WordTokens {
    fn name(&self) -> &str {
        "word_tokens"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 1..=1)?;
        arguments::strings(self.name(), types)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(token_list())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let strings = StringArgument::try_new(self.name(), &args.args[0])?;
        let mut scratch = String::new();
        let lists = tokens_of(&strings, arguments::rows(&args), |text, emit| {
            word_tokens::word_tokens(text, &mut scratch, emit);
        });
        arguments::result(&args, lists)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

/// `qgrams(s, q [, pad])`
#[derive(Debug, PartialEq, Eq, Hash)]
struct QGrams {
    signature: Signature,
}

impl ScalarUDFImpl for QGrams {
    fn name(&self) -> &str {
        "qgrams"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 2..=3)?;
        let mut coerced =
            vec![arguments::string(self.name(), 0, &types[0])?, arguments::integer(self.name(), "q", &types[1])?];
        if let Some(pad) = types.get(2) {
            coerced.push(arguments::string(self.name(), 2, pad)?);
        }
        Ok(coerced)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(token_list())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let constant = |i: usize| args.scalar_arguments.get(i).copied().flatten();
        arguments::check_integer(self.name(), "q", constant(1), arguments::GRAM_LENGTHS)?;
        if let Some(pad) = constant(2).and_then(ScalarValue::try_as_str).flatten()
            && only_character(pad).is_none()
        {
            return plan_err!("qgrams: pad has to be one character");
        }
        Ok(Arc::new(Field::new(self.name(), token_list(), true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments::rows(&args);
        let q = arguments::constant_integer(self.name(), "q", &args.args[1], arguments::GRAM_LENGTHS)?;
        let pad = match args.args.get(2) {
            None => Some(None),
            Some(pad) => arguments::constant_string(self.name(), "pad", pad)?.map(Some),
        };
        let (Some(q), Some(pad)) = (q, pad) else {
            return arguments::result(&args, new_null_array(&token_list(), rows));
        };
        let pad = match pad.as_deref().map(only_character) {
            None => None,
            Some(Some(pad)) => Some(pad),
            Some(None) => return exec_err!("qgrams: pad has to be one character"),
        };
        let q = usize::try_from(q).unwrap_or(usize::MAX);
        let strings = StringArgument::try_new(self.name(), &args.args[0])?;
        let mut scratch = String::new();
        let lists = tokens_of(&strings, rows, |text, emit| qgrams::qgrams(text, q, pad, &mut scratch, emit));
        arguments::result(&args, lists)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

fn only_character(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}
