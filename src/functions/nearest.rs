//! `nearest_join_condition`: the mark that carries NEAREST from the SQL text to the analyzer rule.
//!
//! A ranking is no condition of a pair, and DataFusion's `Join` node has no room for one. It travels inside a call that
//! stands in the place of the ON condition, until [`NearestJoinRule`](crate::optimizer::NearestJoinRule) makes a node
//! of its own of the join, before any optimizer rule sees it:
//!
//! ```text
//! nearest_join_condition('distance', 3, score, tie, 'asc nulls last', .., condition, 'on', 0.95, 'with recall',
//!     'with ties')
//! ```
//!
//! Like the mark of SIMILARITY JOIN it has no value: where no rule has taken it off, the plan or the query fails.
//!
//! The function has no user documentation on purpose, nobody has to write it.

use std::fmt;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, plan_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, SortExpr, Volatility, lit,
};
pub use similarity_engine::recall::Recall;

use super::with_recall::recall_of;

/// The name of the mark, which the SQL rewriting writes and the analyzer rule looks for.
pub const NAME: &str = "nearest_join_condition";
/// Follows the ON condition.
pub const ON: &str = "on";
/// Follows the share of the neighbours that is to be found, where some may be missed.
pub const WITH_RECALL: &str = "with recall";
/// The last argument, where rows that tie with the last neighbour come out too.
pub const WITH_TIES: &str = "with ties";

/// Which scores are the best ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// The smallest.
    Distance,
    /// The largest.
    Similarity,
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Distance => "distance",
            Self::Similarity => "similarity",
        })
    }
}

/// The rows of the right side that each row of the left side is joined with: the best `rows` by `score`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Nearest {
    /// How many, at least 1.
    pub rows: usize,
    /// Which scores are the best ones.
    pub direction: Direction,
    /// Score over both sides; a pair without a score (NULL) is never joined.
    pub score: Expr,
    /// Sort keys over the right side that decide between equal scores. Without them all columns of the right side do,
    /// in order.
    pub then_by: Vec<SortExpr>,
    /// What a pair has to satisfy besides.
    pub condition: Option<Expr>,
    /// Whether the rows that tie with the last one, by `score` and `then_by`, come out too.
    pub ties: bool,
    /// The mean share of a row's neighbours that has to be found; without it none is missed.
    pub recall: Option<Recall>,
}

impl Nearest {
    /// The best `rows` by `score`, where ties are decided by all columns of the right side.
    pub fn new(rows: usize, direction: Direction, score: Expr) -> Self {
        Self { rows, direction, score, then_by: Vec::new(), condition: None, ties: false, recall: None }
    }
}

/// How an order is written in the mark.
pub fn order_name(ascending: bool, nulls_first: bool) -> &'static str {
    match (ascending, nulls_first) {
        (true, false) => "asc nulls last",
        (true, true) => "asc nulls first",
        (false, false) => "desc nulls last",
        (false, true) => "desc nulls first",
    }
}

/// The mark as a function, for registration.
pub fn nearest_join_condition() -> Arc<ScalarUDF> {
    static MARK: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(NearestJoinCondition::new())));
    Arc::clone(&MARK)
}

/// `nearest` as the condition of a join.
pub fn mark(nearest: Nearest) -> Expr {
    let mut args = vec![lit(nearest.direction.to_string()), lit(nearest.rows as u64), nearest.score];
    for SortExpr { expr, asc, nulls_first } in nearest.then_by {
        args.extend([expr, lit(order_name(asc, nulls_first))]);
    }
    args.extend(nearest.condition.into_iter().flat_map(|condition| [condition, lit(ON)]));
    args.extend(nearest.recall.into_iter().flat_map(|recall| [lit(recall.share()), lit(WITH_RECALL)]));
    args.extend(nearest.ties.then(|| lit(WITH_TIES)));
    nearest_join_condition().call(args)
}

/// The ranking under the mark, if `expr` carries it.
///
/// # Errors
/// A planning error for arguments that neither [`mark`] nor the SQL rewriting writes.
pub fn marked(expr: &Expr) -> Result<Option<Nearest>> {
    match expr {
        Expr::ScalarFunction(call) if call.func.inner().is::<NearestJoinCondition>() => read(&call.args).map(Some),
        Expr::Alias(alias) => marked(&alias.expr),
        _ => Ok(None),
    }
}

/// Whether `expr` is the mark.
pub fn is_marked(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.func.inner().is::<NearestJoinCondition>())
}

fn read(args: &[Expr]) -> Result<Nearest> {
    let malformed = || plan_datafusion_err!("{NAME} is written by NEAREST alone; write the clause itself");
    let [direction, rows, score, rest @ ..] = args else { return Err(malformed()) };
    let direction = [Direction::Distance, Direction::Similarity]
        .into_iter()
        .find(|known| text(direction) == Some(known.to_string().as_str()))
        .ok_or_else(malformed)?;
    let rows = match rows {
        Expr::Literal(ScalarValue::Int64(Some(rows)), _) => usize::try_from(*rows).ok(),
        Expr::Literal(ScalarValue::UInt64(Some(rows)), _) => usize::try_from(*rows).ok(),
        _ => None,
    };
    let Some(rows) = rows.filter(|&rows| rows > 0) else {
        return plan_err!("NEAREST takes a positive whole number of rows");
    };
    let mut nearest = Nearest::new(rows, direction, score.clone());
    let (pairs, last) = rest.as_chunks::<2>();
    for [expr, what] in pairs {
        let orders = [(true, false), (true, true), (false, false), (false, true)];
        match (text(what), orders.into_iter().find(|&(asc, first)| text(what) == Some(order_name(asc, first)))) {
            (Some(ON), _) => nearest.condition = Some(expr.clone()),
            (Some(WITH_RECALL), _) => nearest.recall = Some(recall(expr)?),
            (_, Some((asc, first))) => nearest.then_by.push(SortExpr::new(expr.clone(), asc, first)),
            _ => return Err(malformed()),
        }
    }
    nearest.ties = match last {
        [] => false,
        [last] if text(last) == Some(WITH_TIES) => true,
        _ => return Err(malformed()),
    };
    Ok(nearest)
}

/// The recall that a constant is.
fn recall(expr: &Expr) -> Result<Recall> {
    match expr {
        Expr::Literal(value, _) => recall_of(value),
        _ => plan_err!("WITH RECALL takes a number above 0 and at most 1, as in WITH RECALL 0.95"),
    }
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NearestJoinCondition {
    signature: Signature,
}

impl NearestJoinCondition {
    fn new() -> Self {
        Self { signature: Signature::variadic_any(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for NearestJoinCondition {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        exec_err!(
            "{NAME} only marks a join with NEAREST for the planner and has no value; plan the query in a session with \
             similarity joins enabled, and write NEAREST in the place of ON"
        )
    }
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::col;

    use super::*;

    #[test]
    fn the_mark_comes_off_as_it_went_on() {
        let plain = Nearest::new(1, Direction::Distance, col("d"));
        let full = Nearest {
            then_by: vec![col("x").sort(true, false), col("y").sort(false, true)],
            condition: Some(col("a").eq(col("b"))),
            ties: true,
            recall: Recall::new(0.9),
            ..Nearest::new(7, Direction::Similarity, col("s"))
        };
        for nearest in [plain, full] {
            let marked_join = mark(nearest.clone());
            assert!(is_marked(&marked_join));
            assert_eq!(marked(&marked_join.alias("m")).unwrap(), Some(nearest));
        }
        assert_eq!(marked(&col("a")).unwrap(), None);
    }

    #[test]
    fn what_nobody_writes_is_refused() {
        let call = |args: Vec<Expr>| marked(&nearest_join_condition().call(args)).unwrap_err().to_string();
        assert!(call(vec![]).contains(NAME));
        assert!(call(vec![lit("far"), lit(1_i64), col("x")]).contains(NAME));
        assert!(call(vec![lit("distance"), lit(0_i64), col("x")]).contains("positive"));
        assert!(call(vec![lit("distance"), lit(1_i64), col("x"), col("y")]).contains(NAME));
        assert!(call(vec![lit("distance"), lit(1_i64), col("x"), col("y"), lit("up")]).contains(NAME));
    }
}
