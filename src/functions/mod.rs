//! The SQL functions, by family.
//!
//! They compute what [`similarity_measures`] defines, over every string and list type, column with column and
//! column with constant. A NULL argument gives NULL. `array_distance`, `cosine_distance` and `inner_product` are
//! DataFusion's own; `levenshtein` is DataFusion's too, and is computed here.

pub mod contract;
pub mod expr_fn;
pub mod nearest;

mod arguments;
mod daitch_mokotoff;
mod documentation;
mod edit;
mod levenshtein;
mod lists;
mod match_count;
mod neighbors;
mod opposite;
mod phonetic;
mod set;
mod signatures;
mod strings;
mod text;
mod token_sets;
mod token_sort_ratio;
mod tokens;
mod trigram;
mod vectors;
mod weighted_similarity;
mod with_recall;

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::functions::all_default_functions;
use datafusion::functions::string::levenshtein::LevenshteinFunc;
use datafusion::functions_nested::all_default_nested_functions;
use datafusion::functions_nested::cosine_distance::CosineDistance;
use datafusion::functions_nested::cosine_distance::cosine_distance_udf;
use datafusion::functions_nested::distance::ArrayDistance;
use datafusion::functions_nested::distance::array_distance_udf;
use datafusion::functions_nested::inner_product::InnerProduct;
use datafusion::functions_nested::inner_product::inner_product_udf;
use datafusion::logical_expr::ScalarUDF;
use similarity_measures::{EditMeasure, SetMeasure, VectorMeasure};

pub(crate) use match_count::{NAME as MATCH_COUNT, weighted_conditions};
pub(crate) use neighbors::NAME as NEIGHBORS;
pub(crate) use opposite::{has_opposite, opposite};
pub(crate) use weighted_similarity::{Missing, NAME as WEIGHTED_SIMILARITY, Weighting};
pub(crate) use with_recall::{NAME as WITH_RECALL, recalled, without_recall};

/// Every function, the marks of SIMILARITY JOIN and NEAREST among them.
pub fn all() -> Vec<Arc<ScalarUDF>> {
    static ALL: LazyLock<Vec<Arc<ScalarUDF>>> = LazyLock::new(|| {
        let mut functions = vec![contract::similarity_join_condition(), nearest::nearest_join_condition()];
        functions.push(levenshtein::function());
        functions.extend(edit::functions());
        functions.extend(set::functions());
        functions.extend(tokens::functions());
        functions.extend(trigram::functions());
        functions.extend(phonetic::functions());
        functions.extend(daitch_mokotoff::functions());
        functions.extend(token_sort_ratio::functions());
        functions.extend(neighbors::functions());
        functions.extend(weighted_similarity::functions());
        functions.extend(match_count::functions());
        functions.extend(with_recall::functions());
        functions.extend(text::functions());
        functions.extend(vectors::functions());
        functions.extend(signatures::functions());
        functions
    });
    ALL.clone()
}

/// The measures of stock DataFusion.
pub fn stock_measures() -> [Arc<ScalarUDF>; 4] {
    [datafusion::functions::string::levenshtein(), array_distance_udf(), cosine_distance_udf(), inner_product_udf()]
}

/// Every function that a condition in a plan may call by itself: ours, one of them that no user can write, and the
/// measures of stock DataFusion.
pub fn in_plans() -> Vec<Arc<ScalarUDF>> {
    let mut functions = all();
    functions.push(opposite::function());
    functions.extend(stock_measures());
    functions
}

/// The names that a user may write: the functions without the marks, and the measures of stock DataFusion.
pub(crate) fn documented() -> Vec<String> {
    let marks = [contract::NAME, nearest::NAME];
    let stock = ["array_distance", "cosine_distance", "inner_product"];
    let ours = all().iter().map(|function| function.name().to_owned()).collect::<Vec<_>>();
    ours.into_iter().filter(|name| !marks.contains(&name.as_str())).chain(stock.map(str::to_owned)).collect()
}

/// Registers the functions alone, without the joins: for places that have nothing but a function registry.
///
/// # Errors
/// What the registry returns.
pub fn register_all(registry: &mut dyn FunctionRegistry) -> Result<()> {
    all().into_iter().try_for_each(|function| registry.register_udf(function).map(|_| ()))
}

/// Whether `function` is one of ours or one of stock DataFusion's measures, and not a namesake that a session
/// registered in its place.
pub fn is_known(function: &ScalarUDF) -> bool {
    function.inner().is::<LevenshteinFunc>()
        || is_stock_vector_measure(function)
        || all().iter().any(|ours| ours.as_ref() == function)
}

/// Whether `function` is one of ours or of stock DataFusion, so that every process of the same versions computes the
/// same by it; a namesake is none.
pub fn is_built_in(function: &ScalarUDF) -> bool {
    static STOCK: LazyLock<HashMap<String, TypeId>> = LazyLock::new(|| {
        let all = all_default_functions().into_iter().chain(all_default_nested_functions());
        all.map(|function| (function.name().to_owned(), kind(&function))).collect()
    });
    STOCK.get(function.name()) == Some(&kind(function)) || is_known(function)
}

/// The type of a function's implementation.
fn kind(function: &ScalarUDF) -> TypeId {
    (function.inner().as_ref() as &dyn Any).type_id()
}

/// Whether `function` surely has one value for two arguments either way round, whatever follows them.
pub fn is_symmetric(function: &ScalarUDF) -> bool {
    let name = function.name();
    let set = SetMeasure::named(name).is_some_and(|measure| measure.descriptor().is_symmetric);
    let measure = set || EditMeasure::named(name).is_some() || VectorMeasure::named(name).is_some();
    (measure || ["levenshtein_less_equal", "neighbors"].contains(&name)) && is_known(function)
}

/// Whether `function` is one of stock DataFusion's measures of vectors. For elements that are not finite they have
/// answers of their own.
pub fn is_stock_vector_measure(function: &ScalarUDF) -> bool {
    let inner = function.inner();
    inner.is::<ArrayDistance>() || inner.is::<CosineDistance>() || inner.is::<InnerProduct>()
}

/// The function of ours with this name. For the modules here, which ask for names that exist.
fn named(name: &str) -> Arc<ScalarUDF> {
    let found = all().into_iter().find(|function| function.name() == name);
    found.unwrap_or_else(|| unreachable!("no function is called {name}"))
}
