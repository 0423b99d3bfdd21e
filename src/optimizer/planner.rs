//! Plans the operator for a [`SimilarityJoinNode`].

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, JoinConstraint, JoinSide, JoinType, NullEquality, Result, config_err, plan_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, LogicalPlan, Operator, UserDefinedLogicalNode};
use datafusion::physical_expr::PhysicalExprRef;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::build_side::{self, BuildSide};
use super::node::SimilarityJoinNode;
use super::same_input::{same_expr, same_rows};
use crate::config::{EngineChoice, SimilarityOptions};
use crate::exec::{EqualityExprs, JoinInputs, JoinSpec, SimilarityJoinExec};
use crate::predicate::{Conjunction, EqualityKey, Sides};
use crate::program::Program;

/// Plans similarity joins; for sessions that have a query planner of their own.
#[derive(Debug, Default)]
pub struct SimilarityJoinPlanner;

#[async_trait]
impl ExtensionPlanner for SimilarityJoinPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        planning: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [left, right]) = (node.as_any().downcast_ref::<SimilarityJoinNode>(), physical_inputs) else {
            return Ok(None);
        };
        let options = SimilarityOptions::of(session.config_options());
        if options.engine == EngineChoice::Cuda {
            return config_err!(
                "similarity.engine = 'cuda', but this build has no CUDA engine; set it to 'cpu' or 'auto'"
            );
        }
        let sides = Sides { left: node.left().schema(), right: node.right().schema() };
        let Some(program) = Program::compile(Conjunction::of(node.condition(), sides)) else {
            return plain_join(planner, node, session).await.map(Some);
        };
        let schema = sides.left.join(sides.right)?;
        let planned = Planning { planner, session, planning, sides, schema };
        planned.operator(node, program, left, right).map(Some)
    }
}

/// The join as stock DataFusion runs it, for a condition that later passes have made unrecognisable.
async fn plain_join(
    planner: &dyn PhysicalPlanner,
    node: &SimilarityJoinNode,
    session: &dyn Session,
) -> Result<Arc<dyn ExecutionPlan>> {
    if node.contract() {
        return plan_err!("SIMILARITY JOIN on {}: no index serves this condition", node.condition().human_display());
    }
    let sides = Sides { left: node.left().schema(), right: node.right().schema() };
    let Conjunction { keys, atoms, residual, .. } = Conjunction::of(node.condition(), sides);
    let strict = keys.iter().all(|key| !key.null_equals_null);
    let (on, filtered): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| strict || key.null_equals_null);
    let null_equality = if strict { NullEquality::NullEqualsNothing } else { NullEquality::NullEqualsNull };
    let filter = filtered.iter().map(equality).chain(atoms.into_iter().map(|a| a.condition)).chain(residual);
    let join = Join::try_new(
        Arc::new(node.left().clone()),
        Arc::new(node.right().clone()),
        on.into_iter().map(|key| (key.left, key.right)).collect(),
        conjunction(filter.collect::<Vec<_>>()),
        node.join_type(),
        JoinConstraint::On,
        null_equality,
        false,
    )?;
    planner.create_physical_plan(&LogicalPlan::Join(join), session).await
}

fn equality(key: &EqualityKey) -> Expr {
    let op = if key.null_equals_null { Operator::IsNotDistinctFrom } else { Operator::Eq };
    Expr::BinaryExpr(BinaryExpr::new(key.left.clone().into(), op, key.right.clone().into()))
}

struct Planning<'a> {
    planner: &'a dyn PhysicalPlanner,
    session: &'a dyn Session,
    planning: &'a PhysicalPlanningContext,
    sides: Sides<'a>,
    /// Both sides, left columns first.
    schema: DFSchema,
}

impl Planning<'_> {
    fn operator(
        &self,
        node: &SimilarityJoinNode,
        program: Program,
        left: &Arc<dyn ExecutionPlan>,
        right: &Arc<dyn ExecutionPlan>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let own = self.is_own_join(node, &program) && left.schema().fields().len() == right.schema().fields().len();
        let (equalities, unindexed) = self.equalities(&program.keys)?;
        let residual = unindexed.into_iter().chain(program.residual);
        let residual = residual.map(|condition| self.filter(&condition)).collect::<Result<_>>()?;
        let build = match own {
            true => BuildSide { side: JoinSide::Left, why: String::new(), probe_rows: None },
            false => build_side::choose(left.as_ref(), right.as_ref())?,
        };
        let spec = JoinSpec {
            join_type: node.join_type(),
            build: build.side,
            why_build: build.why,
            probe_rows: build.probe_rows,
            equalities,
            left_key: self.expression(&program.entry.left, self.sides.left)?,
            right_key: self.expression(&program.entry.right, self.sides.right)?,
            test: program.entry.test,
            residual,
            condition: self.filter(node.condition())?,
        };
        let inputs = match own {
            true => JoinInputs::Own { input: Arc::clone(left), partitions: self.session.config().target_partitions() },
            false => JoinInputs::Two { left: Arc::clone(left), right: Arc::clone(right) },
        };
        Ok(Arc::new(SimilarityJoinExec::new(inputs, Arc::new(spec))))
    }

    /// Whether one execution of one input serves both sides and each pair need be looked for only once: both
    /// inputs are the same rows, keys and equalities are the same expressions of both sides (every measure is
    /// symmetric), and a condition of the residual holds for no row with itself.
    fn is_own_join(&self, node: &SimilarityJoinNode, program: &Program) -> bool {
        let Sides { left, right } = self.sides;
        let emits_no_right_rows =
            matches!(node.join_type(), JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti);
        emits_no_right_rows
            && same_rows(node.left(), node.right())
            && same_expr(&program.entry.left, left, &program.entry.right, right)
            && program.keys.iter().all(|key| same_expr(&key.left, left, &key.right, right))
            && program.residual.iter().any(|condition| self.is_irreflexive(condition))
    }

    /// `a.x < b.x`, `a.x > b.x` or `a.x <> b.x`: false or NULL for a row with itself.
    fn is_irreflexive(&self, condition: &Expr) -> bool {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Lt | Operator::Gt | Operator::NotEq, right }) = condition
        else {
            return false;
        };
        let Some((left, right)) = self.sides.order(left, right) else { return false };
        same_expr(&left, self.sides.left, &right, self.sides.right)
    }

    /// The equality keys that groups can stand for, and the others as conditions.
    fn equalities(&self, keys: &[EqualityKey]) -> Result<(Vec<EqualityExprs>, Vec<Expr>)> {
        let (mut grouped, mut conditions) = (Vec::new(), Vec::new());
        for key in keys {
            let left = self.expression(&key.left, self.sides.left)?;
            let right = self.expression(&key.right, self.sides.right)?;
            let left_type = left.data_type(self.sides.left.as_arrow())?;
            let right_type = right.data_type(self.sides.right.as_arrow())?;
            if left_type == right_type && has_row_equality(&left_type) {
                grouped.push(EqualityExprs { left, right, null_equals_null: key.null_equals_null });
            } else {
                conditions.push(equality(key));
            }
        }
        Ok((grouped, conditions))
    }

    fn expression(&self, expr: &Expr, schema: &DFSchema) -> Result<PhysicalExprRef> {
        self.planner.create_physical_expr(expr, schema, self.session, self.planning)
    }

    /// `condition` over both sides, with the columns that it reads.
    fn filter(&self, condition: &Expr) -> Result<JoinFilter> {
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

/// Whether equal values of the type have equal rows in Arrow's row format, and only they.
fn has_row_equality(data_type: &DataType) -> bool {
    let floats_by_key = matches!(data_type, DataType::Dictionary(_, value) if value.is_floating());
    !data_type.is_nested() && !floats_by_key && RowConverter::supports_fields(&[SortField::new(data_type.clone())])
}
