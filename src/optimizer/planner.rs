//! Plans the operators of this crate's logical nodes.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::{JoinConstraint, JoinSide, JoinType, NullEquality, Result, plan_err};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Join, LogicalPlan, Operator, UserDefinedLogicalNode};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};

use super::build_side::{self, BuildSide};
use super::indexes::index_of;
use super::links::LinksNode;
use super::nearest::{IndexedTopKNode, NearestJoinNode};
use super::node::SimilarityJoinNode;
use super::physical::{Physical, equality};
use super::row_numbers::side_by_side;
use super::rule_strategy::rule_strategy;
use super::same_input::{same_expr, same_rows};
use super::symmetric_rules::{is_symmetric_atom, is_symmetric_key, symmetric_rules};
use crate::config::SimilarityOptions;
use crate::exec::{JoinInputs, JoinSpec, MatchingDependencyBlockExec, SimilarityJoinExec, SimilarityStrategy};
use crate::predicate::{Conjunction, Sides, plain_first};
use crate::program::{Claim, Compiled, ConjunctionPlan, RuleAtom, Rules, compile};
use similarity_engine::choice::EngineSpec;

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
        if let (Some(dml), [input]) = (node.as_any().downcast_ref(), physical_inputs) {
            return super::dml::plan(dml, input, session).map(Some);
        }
        if let (Some(links), [input]) = (node.as_any().downcast_ref::<LinksNode>(), physical_inputs) {
            let engine = SimilarityOptions::of(session.config_options()).engine_spec()?;
            return links.plan(input, engine).map(Some);
        }
        if let (Some(top), [nearest, stock]) = (node.as_any().downcast_ref::<IndexedTopKNode>(), physical_inputs) {
            return Ok(Some(top.plan([nearest, stock])));
        }
        let (node, nearest) = (node.as_any().downcast_ref::<SimilarityJoinNode>(), node.as_any().downcast_ref());
        let ([left, right], true) = (physical_inputs, node.is_some() || nearest.is_some()) else { return Ok(None) };
        let [left, right] = [left, right].map(|input| side_by_side(input, session));
        let (left, right) = (&left?, &right?);
        let options = SimilarityOptions::of(session.config_options());
        let engine = options.engine_spec()?;
        if let Some(node) = nearest {
            let physical = Physical::new(planner, session, planning, NearestJoinNode::sides(node))?;
            return super::nearest::plan(node, [left, right], &physical, (options.enabled, engine)).map(Some);
        }
        let Some(node) = node else { return Ok(None) };
        let sides = Sides { left: node.left().schema(), right: node.right().schema() };
        // the rule has made sure that it is one table, where it has asked for that
        let claim = if node.contract() { Claim::Contract } else { Claim::OneTable };
        let Ok(compiled) = compile(node.condition(), sides, options.max_clauses, claim) else {
            return plain_join(planner, node, session).await.map(Some);
        };
        let physical = Physical::new(planner, session, planning, sides)?;
        let planned = Planning { physical, node, inputs: [left, right], engine };
        Ok(Some(match compiled {
            Compiled::Conjunction(program) => planned.similarity_join(*program)?,
            Compiled::Rules(rules) => planned.matching_dependency_block(rules)?,
        }))
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
    let Conjunction { keys, atoms, bands, residual, .. } = Conjunction::of(node.condition(), sides);
    let strict = keys.iter().all(|key| !key.null_equals_null);
    let (on, filtered): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| strict || key.null_equals_null);
    let null_equality = if strict { NullEquality::NullEqualsNothing } else { NullEquality::NullEqualsNull };
    // the condition of an atom that only filters is part of the residual
    let indexed = atoms
        .into_iter()
        .filter(|atom| !atom.filters)
        .map(|atom| atom.condition)
        .chain(bands.into_iter().map(|band| band.condition));
    let filter = filtered.iter().map(equality).chain(indexed).chain(residual);
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

struct Planning<'a> {
    physical: Physical<'a>,
    node: &'a SimilarityJoinNode,
    inputs: [&'a Arc<dyn ExecutionPlan>; 2],
    engine: EngineSpec,
}

impl Planning<'_> {
    fn similarity_join(&self, program: ConjunctionPlan) -> Result<Arc<dyn ExecutionPlan>> {
        let Sides { left, right } = self.physical.sides;
        let symmetric = is_symmetric_atom(&program.entry, self.physical.sides)
            && program.keys.iter().all(|key| is_symmetric_key(key, self.physical.sides));
        let self_join = symmetric && self.is_self_join(&program.residual);
        let (equalities, unindexed) = self.physical.equalities(&program.keys)?;
        let entry = (program.entry.left.clone(), program.entry.right.clone());
        let (inputs, spec) = self.join(self_join, &[entry], unindexed.into_iter().chain(program.residual))?;
        let keys = SimilarityStrategy {
            equalities,
            left_key: self.physical.expression(&program.entry.left, left)?,
            right_key: self.physical.expression(&program.entry.right, right)?,
            condition: program.entry.similarity,
            engine: self.engine,
        };
        Ok(Arc::new(SimilarityJoinExec::new(inputs, Arc::new(spec), Arc::new(keys))?))
    }

    fn matching_dependency_block(&self, rules: Rules) -> Result<Arc<dyn ExecutionPlan>> {
        let symmetric = symmetric_rules(&rules, self.physical.sides).filter(|_| self.is_self_join(&rules.residual));
        let (self_join, rules) = (symmetric.is_some(), symmetric.unwrap_or(rules));
        let compared: Vec<(Expr, Expr)> = rules.atoms.iter().filter_map(RuleAtom::compared).collect();
        let Rules { atoms, clauses, residual } = rules;
        let (inputs, spec) = self.join(self_join, &compared, residual)?;
        let build_rows = match spec.build {
            JoinSide::Right => build_side::rows(self.inputs[1].as_ref())?,
            _ => build_side::rows(self.inputs[0].as_ref())?,
        };
        let rules = rule_strategy((atoms, clauses), build_rows.get_value().copied(), &self.physical, self.engine)?;
        Ok(Arc::new(MatchingDependencyBlockExec::new(inputs, Arc::new(spec), Arc::new(rules))?))
    }

    /// Inputs and everything but what finds the pairs; `self_join`, where one input is both sides. An index over one of
    /// the keys of one side makes that side the one that is collected.
    fn join(
        &self,
        self_join: bool,
        keys: &[(Expr, Expr)],
        residual: impl IntoIterator<Item = Expr>,
    ) -> Result<(JoinInputs, JoinSpec)> {
        let ([left, right], residual) = (self.inputs, plain_first(residual));
        let session = self.physical.session;
        let of_left = keys.iter().find_map(|(key, _)| index_of(session, self.node.left(), key));
        let of_right = keys.iter().find_map(|(_, key)| index_of(session, self.node.right(), key));
        let (build, index) = match (self_join, of_left, of_right) {
            (true, index, _) => (BuildSide { side: JoinSide::Left, why: String::new(), probe_rows: None }, index),
            (false, Some(index), None) => (build_side::of_index(JoinSide::Left, right.as_ref())?, Some(index)),
            (false, None, Some(index)) => (build_side::of_index(JoinSide::Right, left.as_ref())?, Some(index)),
            (false, of_left, of_right) => {
                let build = build_side::choose(left.as_ref(), right.as_ref())?;
                let index = if build.side == JoinSide::Left { of_left } else { of_right };
                (build, index)
            }
        };
        let spec = JoinSpec {
            join_type: self.node.join_type(),
            build: build.side,
            why_build: build.why,
            probe_rows: build.probe_rows,
            recall: self.node.recall(),
            index,
            residual: residual.iter().map(|condition| self.physical.filter(condition)).collect::<Result<_>>()?,
            condition: self.physical.filter(self.node.condition())?,
        };
        let inputs = match self_join {
            true => JoinInputs::SelfJoin {
                input: Arc::clone(left),
                partitions: self.physical.session.config().target_partitions(),
            },
            false => JoinInputs::Two { left: Arc::clone(left), right: Arc::clone(right) },
        };
        Ok((inputs, spec))
    }

    /// Whether one execution of one input serves both sides and each pair need be looked for only once, given that the
    /// conditions are symmetric: both inputs are the same rows, and a condition of the residual
    /// holds for no row with itself.
    fn is_self_join(&self, residual: &[Expr]) -> bool {
        let emits_no_right_rows =
            matches!(self.node.join_type(), JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti);
        let [left, right] = self.inputs;
        emits_no_right_rows
            && same_rows(self.node.left(), self.node.right())
            && residual.iter().any(|condition| self.is_irreflexive(condition))
            && left.schema().fields().len() == right.schema().fields().len()
    }

    /// `a.x < b.x`, `a.x > b.x` or `a.x <> b.x`: false or NULL for a row with itself.
    fn is_irreflexive(&self, condition: &Expr) -> bool {
        let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Lt | Operator::Gt | Operator::NotEq, right }) = condition
        else {
            return false;
        };
        let Some((left, right)) = self.physical.sides.order(left, right) else { return false };
        same_expr(&left, self.physical.sides.left, &right, self.physical.sides.right)
    }
}
