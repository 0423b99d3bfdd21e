//! Codes of how an English name sounds.

use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::arrow::array::{Int64Array, new_null_array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::arguments;
use super::documentation;
use super::strings::{StringArgument, map_strings};
use similarity_measures::{double_metaphone, metaphone, soundex};

/// PostgreSQL's limits on the length of a metaphone code; the longest is taken where the query names none.
const METAPHONE_LENGTHS: RangeInclusive<i64> = 1..=255;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::{Int64, Utf8};
    let signature = |kind| match kind {
        Kind::Metaphone => arguments::signature([&[Utf8], &[Utf8, Int64]]),
        _ => arguments::signature([&[Utf8]]),
    };
    let code = |kind| Arc::new(ScalarUDF::from(PhoneticCode { kind, signature: signature(kind) }));
    vec![
        code(Kind::Soundex),
        code(Kind::Metaphone),
        code(Kind::DoubleMetaphone),
        code(Kind::DoubleMetaphoneAlternate),
        Arc::new(ScalarUDF::from(Difference { signature: arguments::signature([&[Utf8, Utf8]]) })),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Soundex,
    Metaphone,
    DoubleMetaphone,
    DoubleMetaphoneAlternate,
}

/// The code of one string.
#[derive(Debug, PartialEq, Eq, Hash)]
struct PhoneticCode {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for PhoneticCode {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Soundex => "soundex",
            Kind::Metaphone => "metaphone",
            Kind::DoubleMetaphone => "dmetaphone",
            Kind::DoubleMetaphoneAlternate => "dmetaphone_alt",
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

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let result = self.return_type(&arguments::types(&args))?;
        arguments::check_integer(
            self.name(),
            "max_length",
            args.scalar_arguments.get(1).copied().flatten(),
            METAPHONE_LENGTHS,
        )?;
        Ok(Arc::new(Field::new(self.name(), result, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments::rows(&args);
        let length = match args.args.get(1) {
            Some(length) => arguments::constant_integer(self.name(), "max_length", length, METAPHONE_LENGTHS)?,
            None => Some(*METAPHONE_LENGTHS.end()),
        };
        let Some(length) = length else { return arguments::result(&args, new_null_array(&DataType::Utf8, rows)) };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let strings = StringArgument::try_new(self.name(), &args.args[0])?;
        let codes = map_strings(self.name(), &strings, rows, |s| match self.kind {
            Kind::Soundex => soundex::soundex(s),
            Kind::Metaphone => metaphone::metaphone(s, length),
            Kind::DoubleMetaphone => double_metaphone::double_metaphone(s).0,
            Kind::DoubleMetaphoneAlternate => double_metaphone::double_metaphone(s).1,
        })?;
        arguments::result(&args, codes)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl PhoneticCode {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let most = if self.kind == Kind::Metaphone { 2 } else { 1 };
        arguments::count(self.name(), types, 1..=most)?;
        let mut coerced = arguments::strings(self.name(), &types[..1])?;
        if let Some(length) = types.get(1) {
            coerced.push(arguments::integer(self.name(), "max_length", length)?);
        }
        Ok(coerced)
    }
}

/// `difference(a, b)`: how many places of the Soundex codes agree.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Difference {
    signature: Signature,
}

impl ScalarUDFImpl for Difference {
    fn name(&self) -> &str {
        "difference"
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let left = StringArgument::try_new(self.name(), &args.args[0])?;
        let right = StringArgument::try_new(self.name(), &args.args[1])?;
        let places = |row| Some(i64::from(soundex::difference(left.at(row)?, right.at(row)?)));
        let array = (0..arguments::rows(&args)).map(places).collect::<Int64Array>();
        arguments::result(&args, Arc::new(array))
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl Difference {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 2..=2)?;
        arguments::strings(self.name(), types)
    }
}
