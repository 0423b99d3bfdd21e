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
use crate::exec::{
    AtomExprs, BandExprs, EpsilonJoinExec, EpsilonKeys, EqualityExprs, JoinInputs, JoinSpec,
    MatchingDependencyBlockExec, RuleKeys, SimilarityJoinExec, SimilarityKeys,
};
use crate::predicate::{Atom, Band, BandForm, Conjunction, End, EqualityKey, Sides, Test};
use crate::program::{Compiled, Program, RuleAtom, Rules, compile};

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
        let Ok(compiled) = compile(node.condition(), sides, options.max_clauses, node.contract()) else {
            return plain_join(planner, node, session).await.map(Some);
        };
        let schema = sides.left.join(sides.right)?;
        let planned = Planning { planner, session, planning, sides, schema, node, inputs: [left, right] };
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
    node: &'a SimilarityJoinNode,
    inputs: [&'a Arc<dyn ExecutionPlan>; 2],
}

impl Planning<'_> {
    fn similarity_join(&self, program: Program) -> Result<Arc<dyn ExecutionPlan>> {
        let Sides { left, right } = self.sides;
        let symmetric = same_expr(&program.entry.left, left, &program.entry.right, right)
            && program.keys.iter().all(|key| self.is_symmetric(key));
        let own = symmetric && self.is_own_join(&program.residual);
        let (equalities, unindexed) = self.equalities(&program.keys)?;
        let (inputs, spec) = self.join(own, unindexed.into_iter().chain(program.residual))?;
        let keys = SimilarityKeys {
            equalities,
            left_key: self.expression(&program.entry.left, left)?,
            right_key: self.expression(&program.entry.right, right)?,
            test: program.entry.test,
        };
        Ok(match keys.test {
            Test::Vector(_) => Arc::new(EpsilonJoinExec::new(inputs, Arc::new(spec), Arc::new(EpsilonKeys(keys)))),
            _ => Arc::new(SimilarityJoinExec::new(inputs, Arc::new(spec), Arc::new(keys))),
        })
    }

    fn matching_dependency_block(&self, rules: Rules) -> Result<Arc<dyn ExecutionPlan>> {
        let Sides { left, right } = self.sides;
        let symmetric = rules.atoms.iter().all(|atom| match atom {
            RuleAtom::Equality(key) => self.is_symmetric(key),
            RuleAtom::Similarity(atom) => same_expr(&atom.left, left, &atom.right, right),
            RuleAtom::Band(band) => self.is_symmetric_band(band),
            RuleAtom::OneSided { .. } | RuleAtom::Pair(_) => false,
        });
        let own = symmetric && self.is_own_join(&rules.residual);
        let labels = rules.atoms.iter().map(ToString::to_string).collect();
        let mut pairs: Vec<(Expr, Expr)> = Vec::new();
        let mut atoms = Vec::with_capacity(rules.atoms.len());
        for atom in rules.atoms {
            atoms.push(self.atom(atom, &mut pairs)?);
        }
        let key = |(l, r): &(Expr, Expr)| Ok([self.expression(l, left)?, self.expression(r, right)?]);
        let keys = pairs.iter().map(key).collect::<Result<_>>()?;
        let (inputs, spec) = self.join(own, rules.residual)?;
        let build_rows = match spec.build {
            JoinSide::Right => build_side::rows(self.inputs[1].as_ref())?,
            _ => build_side::rows(self.inputs[0].as_ref())?,
        };
        let rules =
            RuleKeys { atoms, labels, keys, clauses: rules.clauses, build_rows: build_rows.get_value().copied() };
        Ok(Arc::new(MatchingDependencyBlockExec::new(inputs, Arc::new(spec), Arc::new(rules))))
    }

    /// An atom in physical expressions; its key pair is one of `keys` from then on.
    fn atom(&self, atom: RuleAtom, keys: &mut Vec<(Expr, Expr)>) -> Result<AtomExprs> {
        Ok(match atom {
            RuleAtom::Equality(key) => match self.equality(&key)? {
                Some(equality) => AtomExprs::Equality(equality),
                None => AtomExprs::Pair(self.filter(&equality(&key))?),
            },
            RuleAtom::Similarity(Atom { left, right, test, .. }) => {
                let pair = (left, right);
                let key = keys.iter().position(|known| *known == pair).unwrap_or_else(|| {
                    keys.push(pair);
                    keys.len() - 1
                });
                AtomExprs::Similarity { key, test }
            }
            RuleAtom::Band(band) => AtomExprs::Band(self.band(&band)?),
            RuleAtom::OneSided { left: true, condition } => {
                AtomExprs::OneSided { side: JoinSide::Left, condition: self.expression(&condition, self.sides.left)? }
            }
            RuleAtom::OneSided { condition, .. } => {
                AtomExprs::OneSided { side: JoinSide::Right, condition: self.expression(&condition, self.sides.right)? }
            }
            RuleAtom::Pair(condition) => AtomExprs::Pair(self.filter(&condition)?),
        })
    }

    /// Inputs and everything but what finds the pairs; `own`, where one input is both sides.
    fn join(&self, own: bool, residual: impl IntoIterator<Item = Expr>) -> Result<(JoinInputs, JoinSpec)> {
        let [left, right] = self.inputs;
        let build = match own {
            true => BuildSide { side: JoinSide::Left, why: String::new(), probe_rows: None },
            false => build_side::choose(left.as_ref(), right.as_ref())?,
        };
        let spec = JoinSpec {
            join_type: self.node.join_type(),
            build: build.side,
            why_build: build.why,
            probe_rows: build.probe_rows,
            residual: residual.into_iter().map(|condition| self.filter(&condition)).collect::<Result<_>>()?,
            condition: self.filter(self.node.condition())?,
        };
        let inputs = match own {
            true => JoinInputs::Own { input: Arc::clone(left), partitions: self.session.config().target_partitions() },
            false => JoinInputs::Two { left: Arc::clone(left), right: Arc::clone(right) },
        };
        Ok((inputs, spec))
    }

    /// Whether one execution of one input serves both sides and each pair need be looked for only once, given that the
    /// conditions are symmetric (every measure is): both inputs are the same rows, and a condition of the residual holds
    /// for no row with itself.
    fn is_own_join(&self, residual: &[Expr]) -> bool {
        let emits_no_right_rows =
            matches!(self.node.join_type(), JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti);
        let [left, right] = self.inputs;
        emits_no_right_rows
            && same_rows(self.node.left(), self.node.right())
            && residual.iter().any(|condition| self.is_irreflexive(condition))
            && left.schema().fields().len() == right.schema().fields().len()
    }

    fn band(&self, band: &Band) -> Result<BandExprs> {
        let Sides { left: left_schema, right: right_schema } = self.sides;
        Ok(match &band.form {
            BandForm::Difference { left, right, bounds } => BandExprs::Difference {
                left: self.expression(left, left_schema)?,
                right: self.expression(right, right_schema)?,
                bounds: *bounds,
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

    /// Whether a band holds both ways round where it holds one way.
    fn is_symmetric_band(&self, band: &Band) -> bool {
        let BandForm::Difference { left, right, bounds } = &band.form else { return false };
        same_expr(left, self.sides.left, right, self.sides.right) && bounds.is_symmetric()
    }

    /// Whether both sides of an equality are the same expression.
    fn is_symmetric(&self, key: &EqualityKey) -> bool {
        same_expr(&key.left, self.sides.left, &key.right, self.sides.right)
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
            match self.equality(key)? {
                Some(exprs) => grouped.push(exprs),
                None => conditions.push(equality(key)),
            }
        }
        Ok((grouped, conditions))
    }

    /// An equality key, if groups can stand for it.
    fn equality(&self, key: &EqualityKey) -> Result<Option<EqualityExprs>> {
        let left = self.expression(&key.left, self.sides.left)?;
        let right = self.expression(&key.right, self.sides.right)?;
        let left_type = left.data_type(self.sides.left.as_arrow())?;
        let right_type = right.data_type(self.sides.right.as_arrow())?;
        let grouped = left_type == right_type && has_row_equality(&left_type);
        Ok(grouped.then_some(EqualityExprs { left, right, null_equals_null: key.null_equals_null }))
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
