//! Functions from a string to its tokens.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListBuilder, StringBuilder, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::arguments;
use super::documentation;
use super::strings::{ResultBytes, StringArgument};
use similarity_measures::qgrams::{Occurrences, multiset_qgrams, qgrams};
use similarity_measures::word_tokens;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::{Int64, Utf8};
    let qgrams = arguments::signature([&[Utf8, Int64], &[Utf8, Int64, Utf8]]);
    vec![
        Arc::new(ScalarUDF::from(WordTokens { signature: arguments::signature([&[Utf8]]) })),
        Arc::new(ScalarUDF::from(QGrams { signature: qgrams.clone(), is_multiset: false })),
        Arc::new(ScalarUDF::from(QGrams { signature: qgrams, is_multiset: true })),
    ]
}

/// A list of strings.
pub(super) fn token_list() -> DataType {
    DataType::new_list(DataType::Utf8, true)
}

/// One list a row: what `tokenise` emits for the string in it.
///
/// # Errors
/// Where the tokens of all rows are too long for one array.
pub(super) fn tokens_of(
    function: &str,
    strings: &StringArgument,
    rows: usize,
    mut tokenise: impl FnMut(&str, &mut dyn FnMut(&str)),
) -> Result<ArrayRef> {
    let mut bytes = ResultBytes::default();
    let mut lists = ListBuilder::new(StringBuilder::new());
    for row in 0..rows {
        let mut fits = Ok(());
        if let Some(text) = strings.at(row) {
            tokenise(text, &mut |token| {
                if fits.is_ok() {
                    fits = bytes.add(function, token);
                }
                if fits.is_ok() {
                    lists.values().append_value(token);
                }
            });
        }
        fits?;
        lists.append(strings.at(row).is_some());
    }
    Ok(Arc::new(lists.finish()))
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
        arguments::accepted_or_given(self.accepted(types), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.accepted(types)?;
        Ok(token_list())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let strings = StringArgument::try_new(self.name(), &args.args[0])?;
        let mut scratch = String::new();
        let lists = tokens_of(self.name(), &strings, arguments::rows(&args), |text, emit| {
            word_tokens::word_tokens(text, &mut scratch, emit);
        })?;
        arguments::result(&args, lists)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl WordTokens {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 1..=1)?;
        arguments::strings(self.name(), types)
    }
}

/// `qgrams(s, q [, pad])` and `multiset_qgrams(s, q [, pad])`
#[derive(Debug, PartialEq, Eq, Hash)]
struct QGrams {
    signature: Signature,
    is_multiset: bool,
}

impl ScalarUDFImpl for QGrams {
    fn name(&self) -> &str {
        if self.is_multiset { "multiset_qgrams" } else { "qgrams" }
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

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let result = self.return_type(&arguments::types(&args))?;
        let constant = |i: usize| args.scalar_arguments.get(i).copied().flatten();
        arguments::check_integer(self.name(), "q", constant(1), arguments::GRAM_LENGTHS)?;
        if let Some(pad) = constant(2).and_then(ScalarValue::try_as_str).flatten()
            && only_character(pad).is_none()
        {
            return plan_err!("{}: pad has to be one character", self.name());
        }
        Ok(Arc::new(Field::new(self.name(), result, true)))
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
            Some(None) => return exec_err!("{}: pad has to be one character", self.name()),
        };
        let q = usize::try_from(q).unwrap_or(usize::MAX);
        let strings = StringArgument::try_new(self.name(), &args.args[0])?;
        let lists = match self.is_multiset {
            true => {
                let mut scratch = Occurrences::default();
                tokens_of(self.name(), &strings, rows, |text, emit| multiset_qgrams(text, q, pad, &mut scratch, emit))?
            }
            false => {
                let mut scratch = String::new();
                tokens_of(self.name(), &strings, rows, |text, emit| qgrams(text, q, pad, &mut scratch, emit))?
            }
        };
        arguments::result(&args, lists)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl QGrams {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 2..=3)?;
        let mut coerced =
            vec![arguments::string(self.name(), 0, &types[0])?, arguments::integer(self.name(), "q", &types[1])?];
        if let Some(pad) = types.get(2) {
            coerced.push(arguments::string(self.name(), 2, pad)?);
        }
        Ok(coerced)
    }
}

fn only_character(text: &str) -> Option<char> {
    let mut chars = text.chars();
    chars.next().filter(|_| chars.next().is_none())
}
