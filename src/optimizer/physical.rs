//! Physical expressions from logical ones over the inputs of a join.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, JoinSide, Result};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_planner::PhysicalPlanner;

use crate::exec::{BandExprs, EqualityExprs};
use crate::predicate::{Band, BandForm, End, EqualityKey, Sides};

/// What expressions over two inputs are planned with.
pub(super) struct Physical<'a> {
    planner: &'a dyn PhysicalPlanner,
    pub session: &'a dyn Session,
    planning: &'a PhysicalPlanningContext,
    pub sides: Sides<'a>,
    /// Both sides, left columns first.
    schema: DFSchema,
}

impl<'a> Physical<'a> {
    pub(super) fn new(
        planner: &'a dyn PhysicalPlanner,
        session: &'a dyn Session,
        planning: &'a PhysicalPlanningContext,
        sides: Sides<'a>,
    ) -> Result<Self> {
        let schema = sides.left.join(sides.right)?;
        Ok(Self { planner, session, planning, sides, schema })
    }

    /// The equality keys that groups can stand for, and the others as conditions.
    pub(super) fn equalities(&self, keys: &[EqualityKey]) -> Result<(Vec<EqualityExprs>, Vec<Expr>)> {
        let (mut grouped, mut conditions) = (Vec::new(), Vec::new());
        for key in keys {
            match self.equality(key)? {
                Some(exprs) => grouped.push(exprs),
                None => conditions.push(equality(key)),
            }
        }
        Ok((grouped, conditions))
    }

    /// An equality key, if groups can stand for it.
    pub(super) fn equality(&self, key: &EqualityKey) -> Result<Option<EqualityExprs>> {
        let left = self.expression(&key.left, self.sides.left)?;
        let right = self.expression(&key.right, self.sides.right)?;
        let left_type = left.data_type(self.sides.left.as_arrow())?;
        let right_type = right.data_type(self.sides.right.as_arrow())?;
        let grouped = left_type == right_type && has_row_equality(&left_type);
        Ok(grouped.then_some(EqualityExprs { left, right, null_equals_null: key.null_equals_null }))
    }

    /// A band in physical expressions.
    pub(super) fn band(&self, band: &Band) -> Result<BandExprs> {
        let Sides { left: left_schema, right: right_schema } = self.sides;
        Ok(match &band.form {
            BandForm::Difference { left, right, bounds, unlimited } => BandExprs::Difference {
                left: self.expression(left, left_schema)?,
                right: self.expression(right, right_schema)?,
                bounds: *bounds,
                unlimited: *unlimited,
            },
            BandForm::Between { value_is_left, value, low, high } => {
                let (of_value, of_ends) = match value_is_left {
                    true => (left_schema, right_schema),
                    false => (right_schema, left_schema),
                };
                let end = |end: &End| -> Result<_> { Ok((self.expression(&end.value, of_ends)?, end.inclusive)) };
                BandExprs::Between {
                    value_side: if *value_is_left { JoinSide::Left } else { JoinSide::Right },
                    value: self.expression(value, of_value)?,
                    low: end(low)?,
                    high: end(high)?,
                }
            }
        })
    }

    pub(super) fn expression(&self, expr: &Expr, schema: &DFSchema) -> Result<PhysicalExprRef> {
        self.planner.create_physical_expr(expr, schema, self.session, self.planning)
    }

    /// `condition` over both sides, with the columns that it reads.
    pub(super) fn filter(&self, condition: &Expr) -> Result<JoinFilter> {
        let expression = self.expression(condition, &self.schema)?;
        let mut used: Vec<_> = collect_columns(&expression).into_iter().map(|c| c.index()).collect();
        used.sort_unstable();
        let fields: Vec<_> = used.iter().map(|&i| Arc::clone(&self.schema.fields()[i])).collect();
        let expression = expression
            .transform_up(|e| match e.downcast_ref::<Column>() {
                Some(column) => {
                    let place = used.partition_point(|&i| i < column.index());
                    Ok(Transformed::yes(Arc::new(Column::new(column.name(), place)) as PhysicalExprRef))
                }
                None => Ok(Transformed::no(e)),
            })
            .data()?;
        let left_columns = self.sides.left.fields().len();
        let indices = used.into_iter().map(|i| match i.checked_sub(left_columns) {
            Some(index) => ColumnIndex { index, side: JoinSide::Right },
            None => ColumnIndex { index: i, side: JoinSide::Left },
        });
        Ok(JoinFilter::new(expression, indices.collect(), Arc::new(Schema::new(fields))))
    }
}

/// The condition that an equality key stands for.
pub(super) fn equality(key: &EqualityKey) -> Expr {
    let op = if key.null_equals_null { Operator::IsNotDistinctFrom } else { Operator::Eq };
    Expr::BinaryExpr(BinaryExpr::new(key.left.clone().into(), op, key.right.clone().into()))
}

/// Whether equal values of the type have equal rows in Arrow's row format, and only they.
fn has_row_equality(data_type: &DataType) -> bool {
    let floats_by_key = matches!(data_type, DataType::Dictionary(_, value) if value.is_floating());
    !data_type.is_nested() && !floats_by_key && RowConverter::supports_fields(&[SortField::new(data_type.clone())])
}
