//! DataFusion's `levenshtein`, computed with one bit for each character.
//!
//! Types, errors and values are those of [`LevenshteinFunc`], which fills a matrix and decodes a string for each of its
//! rows. What it casts is left to it.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::functions::string::levenshtein::LevenshteinFunc;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use similarity_measures::levenshtein::levenshtein;

use super::arguments;
use super::strings::StringArgument;

pub(super) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Levenshtein { stock: LevenshteinFunc::new() }))
}

/// `levenshtein(a, b)`
#[derive(Debug, PartialEq, Eq, Hash)]
struct Levenshtein {
    stock: LevenshteinFunc,
}

impl ScalarUDFImpl for Levenshtein {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn signature(&self) -> &Signature {
        self.stock.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.stock.return_type(types)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        use DataType::{LargeUtf8, Utf8, Utf8View};
        let [left, right] = args.args.as_slice() else { return self.stock.invoke_with_args(args) };
        let data_type = left.data_type();
        if data_type != right.data_type() || !matches!(data_type, Utf8 | LargeUtf8 | Utf8View) {
            return self.stock.invoke_with_args(args);
        }
        let left = StringArgument::try_new(self.name(), left)?;
        let right = StringArgument::try_new(self.name(), right)?;
        let rows = 0..arguments::rows(&args);
        let distances = rows.map(|row| Some(levenshtein(left.at(row)?, right.at(row)?)));
        let array: ArrayRef = match data_type {
            LargeUtf8 => Arc::new(distances.map(|d| d.map(|d| d as i64)).collect::<Int64Array>()),
            _ => Arc::new(distances.map(|d| d.map(|d| d as i32)).collect::<Int32Array>()),
        };
        arguments::result(&args, array)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.stock.documentation()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Array, Int64Array, LargeStringArray, StringArray, StringViewArray};
    use datafusion::arrow::datatypes::Field;
    use datafusion::common::ScalarValue;
    use datafusion::config::ConfigOptions;
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{Rng, SeedableRng};

    use super::*;

    fn text(rng: &mut StdRng) -> Option<String> {
        let length = *[0, 1, 3, 9, 20, 63, 64, 65, 130].choose(rng)?;
        let letters = if rng.random_bool(0.7) { "abc " } else { "aé\u{301}ß字🦀" };
        let letters: Vec<char> = letters.chars().collect();
        rng.random_bool(0.95).then(|| (0..length).map(|_| letters[rng.random_range(0..letters.len())]).collect())
    }

    fn computed(function: &dyn ScalarUDFImpl, args: [ColumnarValue; 2], rows: usize) -> Result<ColumnarValue> {
        let types = [args[0].data_type(), args[1].data_type()];
        let field = |data_type: &DataType| Arc::new(Field::new("s", data_type.clone(), true));
        function.invoke_with_args(ScalarFunctionArgs {
            arg_fields: types.iter().map(field).collect(),
            return_field: field(&function.return_type(&types)?),
            args: args.into(),
            number_rows: rows,
            config_options: Arc::new(ConfigOptions::new()),
        })
    }

    #[test]
    fn values_types_and_errors_are_those_of_datafusion() {
        let mut rng = StdRng::seed_from_u64(7);
        let mut column = |rows: usize| -> [ArrayRef; 4] {
            let texts: Vec<_> = (0..rows).map(|_| text(&mut rng)).collect();
            [
                Arc::new(StringArray::from(texts.clone())),
                Arc::new(LargeStringArray::from(texts.clone())),
                Arc::new(StringViewArray::from_iter(texts)),
                Arc::new(Int64Array::from(vec![1; rows])),
            ]
        };
        let (left, right) = (column(600), column(600));
        let constant = |array: &ArrayRef| ColumnarValue::Scalar(ScalarValue::try_from_array(array, 3).unwrap());
        let (stock, mut compared) = (LevenshteinFunc::new(), 0);
        for (left, right) in left.iter().flat_map(|left| right.iter().map(move |right| (left, right))) {
            for args in [
                [ColumnarValue::Array(left.clone()), ColumnarValue::Array(right.clone())],
                [ColumnarValue::Array(left.clone()), constant(right)],
                [constant(left), constant(right)],
            ] {
                let expected = computed(&stock, args.clone(), 600);
                let found = computed(&Levenshtein { stock: LevenshteinFunc::new() }, args, 600);
                match (found, expected) {
                    (Ok(ColumnarValue::Array(found)), Ok(ColumnarValue::Array(expected))) => {
                        assert_eq!(&found, &expected);
                        compared += expected.len() - expected.null_count();
                    }
                    (Ok(ColumnarValue::Scalar(found)), Ok(ColumnarValue::Scalar(expected))) => {
                        assert_eq!(found, expected);
                    }
                    (Err(found), Err(expected)) => assert_eq!(found.to_string(), expected.to_string()),
                    (found, expected) => panic!("{found:?} {expected:?}"),
                }
            }
        }
        assert!(compared > 5000, "{compared}");
    }
}
