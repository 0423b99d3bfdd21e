//! The query planner of a session with similarity joins.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::format::ExplainFormat;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, not_impl_err, plan_datafusion_err};
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Join, LogicalPlan, PlanType, StringifiedPlan};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::explain::ExplainExec;
use datafusion::physical_planner::{DefaultPhysicalPlanner, PhysicalPlanner};

use super::declined::{JoinCondition, is_worth_telling, surviving_mark, why_declined};
use super::independent::with_independent_partitions;
use super::lateral::point_to_nearest;
use super::nearest::with_indexed_top_k;
use super::planner::SimilarityJoinPlanner;
use super::subquery::is_constant;
use crate::config::SimilarityOptions;
use crate::exec::MatchingDependencyBlockExec;
use crate::functions::nearest;
use crate::predicate::Sides;

/// DataFusion's planner, with similarity joins; it holds SIMILARITY JOIN to its contract and tells EXPLAIN VERBOSE
/// which joins were left to stock DataFusion, and why.
#[derive(Debug, Default)]
pub struct SimilarityQueryPlanner;

#[async_trait]
impl QueryPlanner for SimilarityQueryPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let options = SimilarityOptions::of(session.config_options());
        uphold_contract(plan, options.max_clauses)?;
        point_to_nearest(plan)?;
        name_subqueries(plan)?;
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(SimilarityJoinPlanner)]);
        let mut plan = Cow::Borrowed(plan);
        if options.enabled {
            plan = with_reasons(&plan, options.max_clauses)?.map_or(plan, Cow::Owned);
            plan = with_indexed_top_k(&plan, session)?.map_or(plan, Cow::Owned);
        }
        let planned = planner.create_physical_plan(&plan, session).await?;
        let planned = match options.independent_partitions {
            true => {
                let sorted = plan.exists(|node| Ok(matches!(node, LogicalPlan::Sort(_))))?;
                with_independent_partitions(planned, session, sorted)?
            }
            false => planned,
        };
        match plan.as_ref() {
            LogicalPlan::Explain(explain) if explain.explain_format == ExplainFormat::Graphviz => {
                with_trees(planned, planner.create_physical_plan(&explain.plan, session).await?)
            }
            _ => Ok(planned),
        }
    }
}

/// Explanation with the execution trees of the joins in `plan`, for EXPLAIN FORMAT GRAPHVIZ.
fn with_trees(explanation: Arc<dyn ExecutionPlan>, plan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut trees = Vec::new();
    plan.apply(|node| {
        if let Some(join) = node.downcast_ref::<MatchingDependencyBlockExec>() {
            trees.push(join.matching().graphviz());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    let Some(explain) = explanation.downcast_ref::<ExplainExec>().filter(|_| !trees.is_empty()) else {
        return Ok(explanation);
    };
    let mut plans = explain.stringified_plans().to_vec();
    plans.push(StringifiedPlan::new(PlanType::FinalPhysicalPlan, trees.join("\n")));
    Ok(Arc::new(ExplainExec::new(explain.schema(), plans, explain.verbose())))
}

/// Fails where a sub-query is left that DataFusion could not turn into a join, in words that name its condition.
fn name_subqueries(plan: &LogicalPlan) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::Filter(_) | LogicalPlan::Join(_) | LogicalPlan::Projection(_)) {
            return Ok(TreeNodeRecursion::Continue);
        }
        node.apply_expressions(|expr| match split_conjunction(expr).into_iter().find(|expr| !is_constant(expr)) {
            Some(condition) => not_impl_err!(
                "DataFusion has no plan for the sub-query in {}; compare it by equality with the query around it, or \
                 join its table",
                condition.human_display()
            ),
            None => Ok(TreeNodeRecursion::Continue),
        })
    })?;
    Ok(())
}

/// Fails where a mark of SIMILARITY JOIN has outlived the rule: the join would run as a nested loop. So it does where
/// one of NEAREST has, which would have no value.
fn uphold_contract(plan: &LogicalPlan, most_clauses: usize) -> Result<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(join) = node
            && let condition = JoinCondition::of(join)
            && condition.contract
        {
            let reason =
                why_declined(join, &condition, most_clauses).unwrap_or_else(|| "the optimizer rule did not run".into());
            return Err(broken(&reason));
        }
        node.apply_expressions(|expr| match surviving_mark(expr) {
            _ if expr.exists(|e| Ok(nearest::is_marked(e)))? => Err(unread_nearest()),
            Some(condition) => Err(broken(&format!(
                "{}: a condition over one side alone joins nothing by similarity",
                condition.human_display()
            ))),
            None => Ok(TreeNodeRecursion::Continue),
        })
    })?;
    Ok(())
}

fn unread_nearest() -> datafusion::common::DataFusionError {
    plan_datafusion_err!(
        "NEAREST cannot be planned here: the analyzer rule `nearest_join` did not see its join; build the session \
         `with_similarity()` and write NEAREST in the place of ON"
    )
}

fn broken(reason: &str) -> datafusion::common::DataFusionError {
    plan_datafusion_err!("SIMILARITY JOIN cannot be accelerated: {reason}")
}

/// Plan with the reasons of declined joins, for EXPLAIN VERBOSE; `None` where there are none.
fn with_reasons(plan: &LogicalPlan, most_clauses: usize) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Explain(explain) = plan else { return Ok(None) };
    let reasons = if explain.verbose { declined(&explain.plan, most_clauses)? } else { Vec::new() };
    if reasons.is_empty() {
        return Ok(None);
    }
    let mut explain = explain.clone();
    let trace = PlanType::OptimizedLogicalPlan { optimizer_name: "similarity_join (declined)".into() };
    explain.stringified_plans.push(StringifiedPlan::new(trace, reasons.join("\n")));
    Ok(Some(LogicalPlan::Explain(explain)))
}

fn declined(plan: &LogicalPlan, most_clauses: usize) -> Result<Vec<String>> {
    let mut reasons = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(join) = node {
            reasons.extend(reason(join, most_clauses));
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(reasons)
}

fn reason(join: &Join, most_clauses: usize) -> Option<String> {
    let condition = JoinCondition::of(join);
    let sides = Sides { left: join.left.schema(), right: join.right.schema() };
    let worth = is_worth_telling(&condition, sides, most_clauses);
    let why = if worth { why_declined(join, &condition, most_clauses) } else { None }?;
    Some(format!("{} Join: {why}", join.join_type))
}
