//! Table functions: queries over queries, for text that any SQL parser reads.
//!
//! Each but `estimate` is a view over the query that it stands for. So it is planned as part of the query around it, by
//! the same rules. Arguments are constants, pieces of SQL among them. Each is parsed by itself before they are put
//! together.

mod arguments;
mod duplicates;
mod estimate;
mod evaluate;
mod explain_match;
mod extend;
mod frames;
mod largest_blocks;
mod links;
mod nearest;
mod one_or_two;
mod query;

use std::sync::Arc;

use datafusion::catalog::TableFunctionImpl;

pub use duplicates::{DuplicatesFunction, MatchesFunction};
pub use estimate::EstimateJoinFunction;
pub use evaluate::{EvaluateClustersFunction, EvaluatePairsFunction, ThresholdSweepFunction, Truth};
pub use explain_match::ExplainMatchFunction;
pub use extend::ExtendDuplicatesFunction;
pub use largest_blocks::LargestBlocksFunction;
pub use links::{BestMatchesFunction, ClustersFunction, MatchPathFunction, OneToOneFunction};
pub use nearest::NearestFunction;

pub(crate) use frames::over;
pub(crate) use query::quoted_column;

/// Every table function with its name.
pub(crate) fn all() -> Vec<(&'static str, Arc<dyn TableFunctionImpl>)> {
    vec![
        (nearest::NEAREST, Arc::new(NearestFunction)),
        (duplicates::DUPLICATES, Arc::new(DuplicatesFunction)),
        (extend::EXTEND_DUPLICATES, Arc::new(ExtendDuplicatesFunction)),
        (estimate::ESTIMATE_JOIN, Arc::new(EstimateJoinFunction)),
        (largest_blocks::LARGEST_BLOCKS, Arc::new(LargestBlocksFunction)),
        (explain_match::EXPLAIN_MATCH, Arc::new(ExplainMatchFunction)),
        (duplicates::MATCHES, Arc::new(MatchesFunction)),
        (links::CLUSTERS, Arc::new(ClustersFunction)),
        (links::ONE_TO_ONE, Arc::new(OneToOneFunction)),
        (links::BEST_MATCHES, Arc::new(BestMatchesFunction)),
        (links::MATCH_PATH, Arc::new(MatchPathFunction)),
        (evaluate::EVALUATE_PAIRS, Arc::new(EvaluatePairsFunction)),
        (evaluate::EVALUATE_CLUSTERS, Arc::new(EvaluateClustersFunction)),
        (evaluate::THRESHOLD_SWEEP, Arc::new(ThresholdSweepFunction)),
    ]
}
