//! Signatures: short values of sets and vectors from which a similarity can be estimated. The same arguments give the
//! same signature in every version and on every machine.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BinaryViewArray, FixedSizeListArray, Float64Array,
    Int64Array, LargeBinaryArray, LargeStringArray, PrimitiveArray, StringArray, StringViewArray, UInt64Array,
};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int32Type, Int64Type, UInt32Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use similarity_measures::e2lsh::Lines;
use similarity_measures::minhash::{MinHash, agreement, token_hash};
use similarity_measures::random_binning::Grids;
use similarity_measures::simhash::{self, Hyperplanes};

use super::arguments;
use super::documentation;
use super::lists::{ListArgument, element_type};
use super::vectors::{Vectors, vector};

pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    use DataType::{Float64, Int64, UInt32, UInt64, Utf8};
    let list = |of, length| DataType::new_fixed_size_list(of, length, true);
    let (tokens, numbers) = (list(Utf8, 3), list(Float64, 3));
    let function = |kind: Kind, signature| Arc::new(ScalarUDF::from(SignatureFunction { kind, signature }));
    vec![
        function(Kind::MinHash, arguments::signature([&[tokens.clone(), Int64], &[tokens.clone(), Int64, Int64]])),
        function(Kind::Agreement, arguments::signature([&[list(UInt32, 3), list(UInt32, 3)]])),
        function(
            Kind::SimHash,
            arguments::signature([
                std::slice::from_ref(&tokens),
                &[tokens.clone(), Int64],
                &[numbers.clone(), Int64],
                &[numbers.clone(), Int64, Int64],
            ]),
        ),
        function(
            Kind::E2Lsh,
            arguments::signature([&[numbers.clone(), Int64, Float64], &[numbers.clone(), Int64, Float64, Int64]]),
        ),
        function(
            Kind::RandomBinning,
            arguments::signature([&[numbers.clone(), Int64, Float64], &[numbers, Int64, Float64, Int64]]),
        ),
        function(Kind::BitHamming, arguments::signature([&[UInt64, UInt64], &[list(UInt64, 3), list(UInt64, 3)]])),
    ]
}

/// The seed where none is given.
const SEED: i64 = 1;
/// The most places of a signature.
const MOST_PLACES: i64 = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    MinHash,
    Agreement,
    SimHash,
    E2Lsh,
    RandomBinning,
    BitHamming,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SignatureFunction {
    kind: Kind,
    signature: Signature,
}

/// The constants behind the first argument.
#[derive(Debug, Clone, Copy)]
struct Constants {
    places: usize,
    width: f64,
    seed: u64,
}

impl ScalarUDFImpl for SignatureFunction {
    fn name(&self) -> &str {
        match self.kind {
            Kind::MinHash => "minhash",
            Kind::Agreement => "minhash_similarity",
            Kind::SimHash => "simhash",
            Kind::E2Lsh => "e2lsh",
            Kind::RandomBinning => "random_binning",
            Kind::BitHamming => "bit_hamming",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        arguments::accepted_or_given(self.accepted(types), types)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let first = &self.accepted(types)?[0];
        Ok(match self.kind {
            Kind::Agreement => DataType::Float64,
            Kind::BitHamming => DataType::Int64,
            Kind::SimHash if !is_vector(first) => DataType::UInt64,
            // how many places is known with the values
            _ => self.signature_type(0),
        })
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types = arguments::types(&args);
        let mut result = self.return_type(&types)?;
        if let DataType::FixedSizeList(..) = result {
            let value = |at: usize| args.scalar_arguments.get(at).copied().flatten();
            let (Some(places), width, seed) = (value(1), value(2), value(self.place_of_seed(&types))) else {
                return plan_err!("{}: {} has to be a constant, as in 128", self.name(), self.name_of_places());
            };
            let constants = self.constants(places, width, seed)?;
            result = self.signature_type(constants.places as i32);
        }
        Ok(Arc::new(Field::new(self.name(), result, true)))
    }

    fn simplify(&self, args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if !matches!(self.kind, Kind::Agreement | Kind::BitHamming) {
            for argument in args.iter().skip(1) {
                arguments::refuse_columns(self.name(), "what follows the first argument", Some(argument))?;
            }
        }
        Ok(ExprSimplifyResult::Original(args))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let array = match self.kind {
            Kind::Agreement => self.agreement(&args)?,
            Kind::BitHamming => self.bit_hamming(&args)?,
            _ => self.signatures(&args)?,
        };
        arguments::result(&args, array)
    }

    fn documentation(&self) -> Option<&Documentation> {
        documentation::of(self.name())
    }
}

impl SignatureFunction {
    fn signature_type(&self, places: i32) -> DataType {
        let of = match self.kind {
            Kind::E2Lsh => DataType::Int32,
            Kind::SimHash => DataType::UInt64,
            _ => DataType::UInt32,
        };
        DataType::new_fixed_size_list(of, places, true)
    }

    /// The types as which it takes arguments of these types.
    fn accepted(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        match self.kind {
            Kind::Agreement | Kind::BitHamming => {
                arguments::count(name, types, 2..=2)?;
                let of = |at: usize| self.compared(at, &types[at]);
                let (left, right) = (of(0)?, of(1)?);
                let lengths = [&left, &right].map(|list| match list {
                    DataType::FixedSizeList(_, length) => Some(*length),
                    _ => None,
                });
                match lengths {
                    [Some(l), Some(r)] if l != r => plan_err!("{name}: the signatures have {l} and {r} places"),
                    [Some(_), None] if right.is_null() => Ok(vec![left.clone(), left]),
                    [None, Some(_)] if left.is_null() => Ok(vec![right.clone(), right]),
                    [Some(_), None] | [None, Some(_)] => {
                        plan_err!("{name} takes two signatures of one kind, not {} and {}", types[0], types[1])
                    }
                    _ => Ok(vec![left, right]),
                }
            }
            Kind::MinHash => {
                arguments::count(name, types, 2..=3)?;
                let mut accepted = vec![tokens(name, &types[0])?, self.constant(1, &types[1])?];
                accepted.extend(types.get(2).map(|seed| self.constant(2, seed)).transpose()?);
                Ok(accepted)
            }
            Kind::SimHash if types.first().is_some_and(is_vector) => {
                arguments::count(name, types, 2..=3)?;
                let mut accepted = vec![vector(name, 0, &types[0])?, self.constant(1, &types[1])?];
                accepted.extend(types.get(2).map(|seed| self.constant(2, seed)).transpose()?);
                Ok(accepted)
            }
            Kind::SimHash => {
                arguments::count(name, types, 1..=2)?;
                let mut accepted = vec![tokens(name, &types[0])?];
                accepted.extend(types.get(1).map(|seed| self.constant(1, seed)).transpose()?);
                Ok(accepted)
            }
            Kind::E2Lsh | Kind::RandomBinning => {
                arguments::count(name, types, 3..=4)?;
                let mut accepted = vec![vector(name, 0, &types[0])?, self.constant(1, &types[1])?];
                accepted.push(arguments::number(name, "width", &types[2])?);
                accepted.extend(types.get(3).map(|seed| self.constant(3, seed)).transpose()?);
                Ok(accepted)
            }
        }
    }

    /// The type of a whole number that is constant. It is taken as it is: a cast around it would hide its value.
    fn constant(&self, at: usize, data_type: &DataType) -> Result<DataType> {
        match data_type.is_integer() || data_type.is_null() {
            true => Ok(data_type.clone()),
            false => plan_err!("{}: argument {} has to be a whole number, not {data_type}", self.name(), at + 1),
        }
    }

    /// The type as which a signature is compared.
    fn compared(&self, at: usize, data_type: &DataType) -> Result<DataType> {
        let element = |element: &DataType| element.is_integer() || element.is_null();
        match data_type {
            DataType::FixedSizeList(of, length) if element(of.data_type()) => {
                let signed = of.data_type().is_signed_integer();
                let of = if signed { DataType::Int64 } else { DataType::UInt64 };
                Ok(DataType::new_fixed_size_list(of, *length, true))
            }
            DataType::Null => Ok(DataType::Null),
            integer if self.kind == Kind::BitHamming && integer.is_signed_integer() => Ok(DataType::Int64),
            integer if self.kind == Kind::BitHamming && integer.is_integer() => Ok(DataType::UInt64),
            other => plan_err!("{}: argument {} has to be a signature, it is of type {other}", self.name(), at + 1),
        }
    }

    fn name_of_places(&self) -> &'static str {
        if self.kind == Kind::SimHash { "bits" } else { "length" }
    }

    fn place_of_seed(&self, types: &[DataType]) -> usize {
        match self.kind {
            Kind::SimHash if !types.first().is_some_and(is_vector) => 1,
            Kind::MinHash | Kind::SimHash => 2,
            _ => 3,
        }
    }

    /// The constants, checked.
    fn constants(
        &self,
        places: &ScalarValue,
        width: Option<&ScalarValue>,
        seed: Option<&ScalarValue>,
    ) -> Result<Constants> {
        let name = self.name();
        let what = self.name_of_places();
        let ScalarValue::Int64(Some(places)) = places.cast_to(&DataType::Int64)? else {
            return plan_err!("{name}: {what} has to be a number, it is NULL");
        };
        if !(1..=MOST_PLACES).contains(&places) {
            return plan_err!("{name}: {what} has to be from 1 to {MOST_PLACES}, it is {places}");
        }
        let places = match self.kind {
            Kind::SimHash if places % 64 != 0 => {
                return plan_err!("{name}: bits has to be a multiple of 64, it is {places}");
            }
            Kind::SimHash => places / 64,
            _ => places,
        };
        let width = match width.filter(|_| matches!(self.kind, Kind::E2Lsh | Kind::RandomBinning)) {
            None => 1.0,
            Some(width) => match width.cast_to(&DataType::Float64)? {
                ScalarValue::Float64(Some(width)) if width > 0.0 && width.is_finite() => width,
                ScalarValue::Float64(Some(width)) => {
                    return plan_err!("{name}: width has to be more than 0, it is {width}");
                }
                _ => return plan_err!("{name}: width has to be more than 0, it is NULL"),
            },
        };
        Ok(Constants { places: places as usize, width, seed: self.seed(seed)? })
    }

    fn seed(&self, seed: Option<&ScalarValue>) -> Result<u64> {
        match seed.map(|seed| seed.cast_to(&DataType::Int64)).transpose()? {
            None => Ok(SEED as u64),
            Some(ScalarValue::Int64(Some(seed))) => Ok(seed as u64),
            Some(_) => plan_err!("{}: seed has to be a number, it is NULL", self.name()),
        }
    }

    /// The signatures of all rows.
    fn signatures(&self, args: &ScalarFunctionArgs) -> Result<ArrayRef> {
        let (name, rows) = (self.name(), arguments::rows(args));
        let scalar = |at: usize| match args.args.get(at) {
            Some(ColumnarValue::Scalar(value)) => Ok(Some(value)),
            Some(ColumnarValue::Array(_)) => exec_err!("{name}: what follows the first argument has to be constant"),
            None => Ok(None),
        };
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let seed = scalar(self.place_of_seed(&types))?;
        if self.kind == Kind::SimHash && !is_vector(&types[0]) {
            let mut tokens = Tokens::try_new(name, &args.args[0], self.seed(seed)?)?;
            let bits = (0..rows).map(|row| tokens.at(row).map(|hashes| simhash::of_tokens(hashes.iter().copied())));
            return Ok(Arc::new(bits.collect::<UInt64Array>()));
        }
        let Some(places) = scalar(1)? else { return exec_err!("{name}: {} is missing", self.name_of_places()) };
        let Constants { places, width, seed } = self.constants(places, scalar(2)?, seed)?;
        if self.kind == Kind::MinHash {
            let mut minhash = MinHash::new(places as u32, seed);
            let mut tokens = Tokens::try_new(name, &args.args[0], seed)?;
            return lists::<UInt32Type>(rows, places, |row, signature| {
                tokens.at(row).is_some_and(|hashes| minhash.sign(hashes.iter().copied(), signature))
            });
        }
        let vectors = Vectors::try_new(name, &args.args[0])?;
        match self.kind {
            Kind::SimHash => {
                let planes = |dimensions| Hyperplanes::new(places, dimensions, seed);
                of_vectors::<UInt64Type, _>(&vectors, rows, places, planes, Hyperplanes::sign)
            }
            Kind::E2Lsh => {
                let lines = |dimensions| Lines::new(places, dimensions, width, seed);
                of_vectors::<Int32Type, _>(&vectors, rows, places, lines, Lines::sign)
            }
            _ => {
                let grids = |dimensions| Grids::new(places, dimensions, width, seed);
                of_vectors::<UInt32Type, _>(&vectors, rows, places, grids, Grids::sign)
            }
        }
    }

    fn agreement(&self, args: &ScalarFunctionArgs) -> Result<ArrayRef> {
        let [left, right] = self.both(args)?;
        let of = |row| agreement(left.at(row)?, right.at(row)?);
        Ok(Arc::new((0..arguments::rows(args)).map(of).collect::<Float64Array>()))
    }

    fn bit_hamming(&self, args: &ScalarFunctionArgs) -> Result<ArrayRef> {
        let [left, right] = self.both(args)?;
        let of = |row| {
            let bits = left.at(row)?.iter().zip(right.at(row)?).map(|(l, r)| (l ^ r).count_ones());
            Some(i64::from(bits.sum::<u32>()))
        };
        Ok(Arc::new((0..arguments::rows(args)).map(of).collect::<Int64Array>()))
    }

    /// Both signatures, as words.
    fn both(&self, args: &ScalarFunctionArgs) -> Result<[Words; 2]> {
        let [left, right] = [0, 1].map(|at| Words::try_new(self.name(), &args.args[at]));
        Ok([left?, right?])
    }
}

/// The signatures of vectors by what `make` gives for their number of dimensions, which seldom changes.
fn of_vectors<T: ArrowPrimitiveType, S>(
    vectors: &Vectors,
    rows: usize,
    places: usize,
    make: impl Fn(usize) -> S,
    sign: impl Fn(&S, &[f64], &mut [T::Native]),
) -> Result<ArrayRef> {
    let mut made: Option<(usize, S)> = None;
    lists::<T>(rows, places, |row, signature| {
        // an element that is not finite lies nowhere
        let finite = |vector: &&[f64]| vector.iter().all(|element| element.is_finite());
        let Some(vector) = vectors.at(row).filter(finite) else { return false };
        let kept = made.take().filter(|(dimensions, _)| *dimensions == vector.len());
        let (_, signer) = made.insert(kept.unwrap_or_else(|| (vector.len(), make(vector.len()))));
        sign(signer, vector, signature);
        true
    })
}

/// A list of one length for each row, NULL where `sign` gives none.
fn lists<T: ArrowPrimitiveType>(
    rows: usize,
    places: usize,
    mut sign: impl FnMut(usize, &mut [T::Native]) -> bool,
) -> Result<ArrayRef> {
    let mut all = Vec::with_capacity(rows * places);
    let mut signature = vec![T::Native::default(); places];
    let has = (0..rows).map(|row| {
        let has = sign(row, &mut signature);
        if !has {
            signature.fill(T::Native::default());
        }
        all.extend_from_slice(&signature);
        has
    });
    let has: Vec<bool> = has.collect();
    let elements = PrimitiveArray::<T>::new(all.into(), None);
    let field = Arc::new(Field::new_list_field(T::DATA_TYPE, true));
    let nulls = has.contains(&false).then(|| NullBuffer::from(has));
    Ok(Arc::new(FixedSizeListArray::try_new(field, places as i32, Arc::new(elements), nulls)?))
}

/// Whether a type is a list of numbers.
fn is_vector(data_type: &DataType) -> bool {
    element_type(data_type).is_some_and(|element| element.is_numeric())
}

/// The type as which tokens are taken.
fn tokens(function: &str, data_type: &DataType) -> Result<DataType> {
    let of = |element: &DataType| {
        element.is_null()
            || element.is_integer()
            || element.is_string()
            || matches!(element, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
    };
    match element_type(data_type) {
        Some(element) if of(element) => Ok(match data_type {
            DataType::ListView(field) => DataType::List(Arc::clone(field)),
            DataType::LargeListView(field) => DataType::LargeList(Arc::clone(field)),
            other => other.clone(),
        }),
        None if data_type.is_null() => Ok(DataType::new_list(DataType::Utf8, true)),
        None if data_type.is_string() => {
            plan_err!("{function} takes a list of tokens, not a text; word_tokens(s) and qgrams(s, 3) make one")
        }
        _ => plan_err!("{function} takes a list of strings or whole numbers, not {data_type}"),
    }
}

/// Tokens of lists, and the hashes of those of one list.
struct Tokens {
    lists: ListArgument,
    values: TokenValues,
    seed: u64,
    /// Which tokens are not NULL, where some are.
    valid: Option<NullBuffer>,
    hashes: Vec<u64>,
}

/// What is hashed of tokens: bytes of texts, and whole numbers as 64 bits.
enum TokenValues {
    Utf8(StringArray),
    LargeUtf8(LargeStringArray),
    Utf8View(StringViewArray),
    Binary(BinaryArray),
    LargeBinary(LargeBinaryArray),
    BinaryView(BinaryViewArray),
    Signed(Int64Array),
    Unsigned(UInt64Array),
    /// All of them are NULL.
    Null,
}

impl TokenValues {
    fn try_new(function: &str, elements: &ArrayRef) -> Result<Self> {
        Ok(match elements.data_type() {
            DataType::Utf8 => Self::Utf8(elements.as_string().clone()),
            DataType::LargeUtf8 => Self::LargeUtf8(elements.as_string().clone()),
            DataType::Utf8View => Self::Utf8View(elements.as_string_view().clone()),
            DataType::Binary => Self::Binary(elements.as_binary().clone()),
            DataType::LargeBinary => Self::LargeBinary(elements.as_binary().clone()),
            DataType::BinaryView => Self::BinaryView(elements.as_binary_view().clone()),
            DataType::UInt64 => Self::Unsigned(elements.as_primitive().clone()),
            DataType::Null => Self::Null,
            integer if integer.is_integer() => Self::Signed(cast(elements, &DataType::Int64)?.as_primitive().clone()),
            other => return exec_err!("{function} takes lists of strings or whole numbers, got {other}"),
        })
    }
}

impl Tokens {
    fn try_new(function: &str, value: &ColumnarValue, seed: u64) -> Result<Self> {
        let lists = ListArgument::try_new(function, value)?;
        let values = TokenValues::try_new(function, lists.elements())?;
        let valid = lists.elements().logical_nulls().filter(|nulls| nulls.null_count() > 0);
        Ok(Self { lists, values, seed, valid, hashes: Vec::new() })
    }

    /// The hashes of the tokens in `row` that are not NULL.
    fn at(&mut self, row: usize) -> Option<&[u64]> {
        let Self { lists, values, seed, valid, hashes } = self;
        let places = lists.at(row)?;
        let places = places.filter(|at| valid.as_ref().is_none_or(|valid| valid.is_valid(*at)));
        let hash = |token: &[u8]| token_hash(token, *seed);
        hashes.clear();
        match values {
            TokenValues::Utf8(texts) => hashes.extend(places.map(|at| hash(texts.value(at).as_bytes()))),
            TokenValues::LargeUtf8(texts) => hashes.extend(places.map(|at| hash(texts.value(at).as_bytes()))),
            TokenValues::Utf8View(texts) => hashes.extend(places.map(|at| hash(texts.value(at).as_bytes()))),
            TokenValues::Binary(bytes) => hashes.extend(places.map(|at| hash(bytes.value(at)))),
            TokenValues::LargeBinary(bytes) => hashes.extend(places.map(|at| hash(bytes.value(at)))),
            TokenValues::BinaryView(bytes) => hashes.extend(places.map(|at| hash(bytes.value(at)))),
            TokenValues::Signed(numbers) => hashes.extend(places.map(|at| hash(&numbers.value(at).to_le_bytes()))),
            TokenValues::Unsigned(numbers) => hashes.extend(places.map(|at| hash(&numbers.value(at).to_le_bytes()))),
            TokenValues::Null => {}
        }
        Some(hashes)
    }
}

/// Signatures as words of 64 bits: lists of one length, or one word each.
struct Words {
    words: Vec<u64>,
    places: usize,
    nulls: Option<NullBuffer>,
    constant: bool,
}

impl Words {
    fn try_new(function: &str, value: &ColumnarValue) -> Result<Self> {
        let (array, constant) = match value {
            ColumnarValue::Array(array) => (Arc::clone(array), false),
            ColumnarValue::Scalar(scalar) => (scalar.to_array_of_size(1)?, true),
        };
        let (elements, places) = match array.data_type() {
            DataType::FixedSizeList(_, length) => {
                let places = *length as usize;
                let lists = array.as_fixed_size_list();
                let start = lists.value_offset(0) as usize;
                (lists.values().slice(start, array.len() * places), places)
            }
            _ => (Arc::clone(&array), 1),
        };
        // a signature with a NULL in it is none
        let inner = elements.nulls().filter(|nulls| nulls.null_count() > 0);
        let inner =
            inner.map(|nulls| (0..array.len()).map(|row| (0..places).all(|at| nulls.is_valid(row * places + at))));
        let inner = inner.map(|valid| NullBuffer::from(valid.collect::<Vec<bool>>()));
        let words = match elements.data_type() {
            DataType::UInt64 => elements.as_primitive::<UInt64Type>().values().to_vec(),
            DataType::Int64 => elements.as_primitive::<Int64Type>().values().iter().map(|word| *word as u64).collect(),
            DataType::Null => vec![0; elements.len()],
            other => return exec_err!("{function} takes signatures, got {other}"),
        };
        let nulls = NullBuffer::union(array.logical_nulls().as_ref(), inner.as_ref());
        Ok(Self { words, places, nulls, constant })
    }

    fn at(&self, row: usize) -> Option<&[u64]> {
        let row = if self.constant { 0 } else { row };
        let valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        valid.then(|| &self.words[row * self.places..(row + 1) * self.places])
    }
}
