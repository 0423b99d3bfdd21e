//! The conditions of a match count as places among the values of the right side.

use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::{JoinSide, Result, internal_err};
use datafusion::physical_expr::PhysicalExprRef;
use similarity_engine::atoms::Span;
use similarity_engine::equality::{Groups, Numberer};
use similarity_engine::match_count;
use similarity_engine::parallel::each_in_turn;
use similarity_engine::{BuildContext, NO_GROUP};

use crate::exec::bands::{BUILD_BYTES, BandExprs, BandValues};
use crate::exec::engine::EngineResult;
use crate::exec::equality;
use crate::exec::spec::EqualityExprs;

/// A condition that is counted, in physical expressions.
#[derive(Debug, Clone)]
pub enum CountedExprs {
    /// Both sides have the same value.
    Equality(EqualityExprs),
    /// A value of one side lies in a range of the other.
    Band(BandExprs),
}

impl CountedExprs {
    /// The expressions.
    pub(super) fn expressions(&self) -> Vec<&PhysicalExprRef> {
        match self {
            Self::Equality(equality) => vec![&equality.left, &equality.right],
            Self::Band(band) => band.expressions(),
        }
    }

    /// What of the condition is about the right side.
    pub(super) fn of_right(&self) -> String {
        match self {
            Self::Equality(EqualityExprs { right, null_equals_null, .. }) => format!("= {right:?} {null_equals_null}"),
            Self::Band(band) => band.of_build(JoinSide::Right),
        }
    }
}

/// The conditions with the values of the right side that left rows are looked up in.
#[derive(Debug)]
pub(super) struct CountedConditions(Vec<Known>);

#[derive(Debug)]
enum Known {
    Equality(Groups),
    Band(BandValues),
}

impl Known {
    /// The values of a condition over the right side `batch`, and the place of each row among them.
    fn of(condition: &CountedExprs, batch: &RecordBatch, context: &BuildContext<'_>) -> Result<(Self, Vec<Span>)> {
        context.cancel.check().or_datafusion()?;
        match condition {
            CountedExprs::Equality(EqualityExprs { right, null_equals_null, .. }) => {
                let values = equality::evaluate_all(std::slice::from_ref(right), batch)?;
                let by = Numberer { threads: context.threads, self_join: false, device: None };
                let (groups, codes) = Groups::build(&values, vec![*null_equals_null], by).or_datafusion()?;
                (context.reserve)(groups.memory()).or_datafusion()?;
                let codes = codes.into_vec().or_datafusion()?;
                Ok((Self::Equality(groups), codes.into_iter().map(|code| place(code, 0)).collect()))
            }
            CountedExprs::Band(band) => {
                (context.reserve)(batch.num_rows() * BUILD_BYTES).or_datafusion()?;
                let (values, column) = band.build(JoinSide::Right, batch, false, context.threads)?;
                Ok((Self::Band(values), column.places))
            }
        }
    }
}

impl CountedConditions {
    /// The conditions over the right side `batch`, and its keys.
    ///
    /// # Errors
    /// Expressions that fail, a refused reservation.
    pub(super) fn build(
        conditions: &[CountedExprs],
        batch: &RecordBatch,
        context: &BuildContext<'_>,
    ) -> Result<(Self, ArrayRef)> {
        let rows = batch.num_rows();
        // the spans by condition, and again by row
        (context.reserve)(2 * conditions.len() * rows * size_of::<Span>()).or_datafusion()?;
        let of = |at: usize| Known::of(&conditions[at], batch, context);
        let all: Vec<_> = each_in_turn(conditions.len(), context.threads, of).into_iter().collect::<Result<_>>()?;
        let (known, columns): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        let keys = match_count::keys(&columns, rows).or_datafusion()?;
        Ok((Self(known), keys))
    }

    /// The keys of the left side `batch`, by the same conditions in whichever columns it has them.
    ///
    /// # Errors
    /// Expressions that fail, differences beyond the type of their numbers.
    pub(super) fn look_up(&self, conditions: &[CountedExprs], batch: &RecordBatch) -> Result<ArrayRef> {
        let rows = batch.num_rows();
        let columns = self.0.iter().zip(conditions).map(|known| match known {
            (Known::Equality(groups), CountedExprs::Equality(EqualityExprs { left, .. })) => {
                let values = equality::evaluate_all(std::slice::from_ref(left), batch)?;
                let codes = groups.look_up(&values).and_then(|codes| codes.into_vec()).or_datafusion()?;
                Ok(codes.into_iter().map(|code| place(code, 1)).collect())
            }
            (Known::Band(values), CountedExprs::Band(band)) => {
                Ok(band.look_up(values, JoinSide::Left, batch)?.accepted)
            }
            _ => internal_err!("conditions of a match count have changed their places"),
        });
        match_count::keys(&columns.collect::<Result<Vec<_>>>()?, rows).or_datafusion()
    }

    /// Bytes held.
    pub(super) fn memory(&self) -> usize {
        let of = |known: &Known| match known {
            Known::Equality(groups) => groups.memory(),
            Known::Band(values) => values.memory(),
        };
        self.0.iter().map(of).sum()
    }
}

/// The place of a value that has this number, and `reach` more.
fn place(code: u32, reach: u32) -> Span {
    if code == NO_GROUP { Span::NONE } else { Span { first: code, last: code + reach } }
}
