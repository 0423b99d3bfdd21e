//! pg_trgm: trigram sets of words and the similarities over them.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float32Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};

use super::arguments;
use super::documentation;
use super::strings::StringArgument;
use super::token_sets::{Interner, TokenSets, overlap};
use super::tokens::{token_list, tokens_of};
use similarity_measures::trigram;

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::Utf8;
    let signature = || arguments::signature([&[Utf8, Utf8]]);
    let pair = |kind| Arc::new(ScalarUDF::from(TrigramPair { kind, signature: signature() }));
    vec![
        pair(Kind::Similarity),
        pair(Kind::WordSimilarity),
        pair(Kind::StrictWordSimilarity),
        Arc::new(ScalarUDF::from(ShowTrigrams { signature: arguments::signature([&[Utf8]]) })),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Similarity,
    WordSimilarity,
    StrictWordSimilarity,
}

/// A similarity of two strings by their trigrams.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TrigramPair {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for TrigramPair {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Similarity => "similarity",
            Kind::WordSimilarity => "word_similarity",
            Kind::StrictWordSimilarity => "strict_word_similarity",
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
        Ok(DataType::Float32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let left = StringArgument::try_new(self.name(), &args.args[0])?;
        let right = StringArgument::try_new(self.name(), &args.args[1])?;
        let rows = arguments::rows(&args);
        let scores = match self.kind {
            Kind::Similarity => similarities(&left, &right, rows),
            Kind::WordSimilarity => scores(&left, &right, rows, trigram::word_similarity),
            Kind::StrictWordSimilarity => scores(&left, &right, rows, trigram::strict_word_similarity),
        };
        arguments::result(&args, scores)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl TrigramPair {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 2..=2)?;
        arguments::strings(self.name(), types)
    }
}

fn similarities(left: &StringArgument, right: &StringArgument, rows: usize) -> ArrayRef {
    let mut interner = Interner::default();
    let mut scratch = String::new();
    let mut sets = |strings| {
        TokenSets::of_strings(strings, rows, &mut interner, |text, emit| {
            trigram::trigrams(text, &mut scratch, emit);
        })
    };
    let (left, right) = (sets(left), sets(right));
    let score = |row| {
        let (l, r) = (left.at(row)?, right.at(row)?);
        Some(trigram::trigram_similarity(overlap(l, r), l.len(), r.len()))
    };
    Arc::new((0..rows).map(score).collect::<Float32Array>())
}

fn scores(left: &StringArgument, right: &StringArgument, rows: usize, score: fn(&str, &str) -> f32) -> ArrayRef {
    Arc::new((0..rows).map(|row| Some(score(left.at(row)?, right.at(row)?))).collect::<Float32Array>())
}

/// `show_trgm(s)`: the distinct trigrams in the order of their bytes.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ShowTrigrams {
    signature: Signature,
}

impl ScalarUDFImpl for ShowTrigrams {
    fn name(&self) -> &str {
        "show_trgm"
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
            let mut found = Vec::new();
            trigram::trigrams(text, &mut scratch, |t| found.push(t.to_owned()));
            found.sort_unstable();
            found.dedup();
            found.iter().for_each(|t| emit(t));
        })?;
        arguments::result(&args, lists)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl ShowTrigrams {
    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::count(self.name(), types, 1..=1)?;
        arguments::strings(self.name(), types)
    }
}
