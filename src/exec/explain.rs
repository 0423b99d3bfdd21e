//! What EXPLAIN shows of a join, item by item.

use datafusion::common::JoinSide;
use datafusion::physical_expr::{PhysicalExprRef, PhysicalSortExpr};
use datafusion::physical_plan::joins::utils::JoinFilter;
use similarity_engine::access_path::AccessPath;
use similarity_engine::choice::EngineSpec;
use similarity_engine::nearest::Wanted;
use similarity_engine::plan::RulePlan;
use similarity_engine::ranking::Ranking;
use similarity_engine::recall::Recall;

use super::engine::platform;
use super::spec::{EqualityExprs, JoinInputs, JoinSpec};
use crate::functions::nearest::Direction;
use crate::predicate::Condition;

/// A name and what is said under it.
pub(super) type Item = (&'static str, String);

/// What finds the pairs of a join, as far as EXPLAIN shows it.
#[derive(Debug)]
pub enum Explained<'a> {
    /// One similarity condition.
    Similarity {
        /// The condition on the left and the right key.
        condition: Condition,
        /// The key of the left side.
        left: &'a PhysicalExprRef,
        /// The key of the right side.
        right: &'a PhysicalExprRef,
        /// Equalities that pairs satisfy.
        equalities: &'a [EqualityExprs],
    },
    /// An OR of ANDs.
    Rules {
        /// How many clauses there are.
        clauses: usize,
        /// The plan before any row is read.
        estimated: RulePlan,
        /// Each atom as EXPLAIN names it.
        labels: &'a [String],
    },
    /// The best rows by a score.
    Nearest {
        /// How many rows, and whether those that tie with the last one come too.
        wanted: Wanted,
        /// How many rows an index is asked for at first.
        searched: Wanted,
        /// The score of a pair.
        score: &'a JoinFilter,
        /// Which scores are the best ones.
        direction: Direction,
        /// What decides between equal scores.
        then_by: &'a [PhysicalSortExpr],
        /// Equalities that pairs satisfy.
        equalities: &'a [EqualityExprs],
        /// Conditions that pairs satisfy.
        residual: &'a [JoinFilter],
        /// What an index ranks by.
        ranking: Option<Ranking>,
        /// Clauses of rules that find other conditions, where there are any.
        found_by: Option<usize>,
    },
}

/// A join that EXPLAIN shows.
pub(super) struct Join<'a> {
    pub spec: &'a JoinSpec,
    pub inputs: &'a JoinInputs,
    pub explained: Explained<'a>,
    pub engine: EngineSpec,
    /// Whether the left row of a pair is another thing than the right one, in a self-join, too.
    pub directed: bool,
    /// What the index has said of itself, once it is built.
    pub found: Option<&'a str>,
    /// The side in whose order rows come out.
    pub order: Option<JoinSide>,
    /// Names of the columns that come out, where these are not all.
    pub projection: Option<String>,
}

impl Join<'_> {
    /// All items.
    pub(super) fn items(&self) -> Vec<Item> {
        self.around(self.explained.items(self.engine, self.spec.recall, self.found))
    }

    /// All items in as few words as possible, for boxes.
    pub(super) fn brief_items(&self) -> Vec<Item> {
        match &self.explained {
            Explained::Rules { clauses, estimated, labels } => self.around(vec![
                ("clauses", clauses.to_string()),
                ("tree (estimated)", estimated.display(labels, &[]).compact()),
                ("what the numbers are", "EXPLAIN FORMAT INDENT or GRAPHVIZ".to_owned()),
            ]),
            explained => self.around(explained.items(self.engine, self.spec.recall, None)),
        }
    }

    /// What every join has, around the items of its pairs.
    fn around(&self, pairs: Vec<Item>) -> Vec<Item> {
        let spec = self.spec;
        let mut items = vec![("join_type", spec.join_type.to_string())];
        items.extend(pairs);
        let of = if matches!(self.explained, Explained::Nearest { .. }) { "neighbours" } else { "pairs" };
        items.extend(spec.recall.map(|recall| ("recall", format!("at least {recall} of the {of}"))));
        push_unless_empty(&mut items, "filter", filters(&spec.residual));
        items.extend(spec.index.as_ref().map(|index| ("index", index.index.name.clone())));
        items.push(match self.inputs {
            JoinInputs::Two { .. } => ("build", format!("{} ({})", spec.build, spec.why_build)),
            JoinInputs::Partitioned { .. } => {
                ("build", format!("{} of each partition ({})", spec.build, spec.why_build))
            }
            JoinInputs::PartitionedSelfJoin { .. } => ("build", "self-join of each partition".to_owned()),
            JoinInputs::SelfJoin { .. } => {
                let once = if self.directed { "" } else { ", each pair is tried once" };
                ("build", format!("self-join (both sides are the same input{once})"))
            }
        });
        items.extend(self.order.map(|side| ("order", format!("kept ({side})"))));
        items.push(("engine", self.explained.engine(self.engine)));
        items.extend(self.projection.as_ref().map(|columns| ("projection", format!("[{columns}]"))));
        items
    }
}

impl Explained<'_> {
    fn items(&self, engine: EngineSpec, recall: Option<Recall>, found: Option<&str>) -> Vec<Item> {
        let path = |possible: &dyn Fn() -> String| ("access_path", found.map_or_else(possible, str::to_owned));
        match self {
            Self::Similarity { condition, left, right, equalities } => {
                let mut items = vec![("on", format!("[{}]", label(*condition, left, right)))];
                push_unless_empty(&mut items, "keys", list(equalities));
                items.push(path(&|| engine.access_paths(platform(), *condition, recall)));
                items
            }
            Self::Rules { clauses, estimated, labels } => {
                let estimated = || format!("{} (estimated)", estimated.display(labels, &[]));
                vec![("clauses", clauses.to_string()), ("tree", found.map_or_else(estimated, str::to_owned))]
            }
            Self::Nearest { wanted, searched, score, direction, then_by, equalities, residual, ranking, found_by } => {
                let direction = direction.to_string().to_uppercase();
                let by = format!("{} {direction}", score.expression());
                let mut items = vec![("k", wanted.rows.to_string()), ("by", by)];
                push_unless_empty(&mut items, "then_by", list(then_by));
                push_unless_empty(&mut items, "keys", list(equalities));
                push_unless_empty(&mut items, "filter", filters(residual));
                items.push(("ties", wanted.ties.to_string()));
                items.push(path(&|| match ranking {
                    Some(ranking) => {
                        let ranked = engine.ranking_access_paths(platform(), ranking, *searched, recall);
                        match found_by {
                            Some(clauses) => format!("{ranked}, and rules of {clauses} clauses"),
                            None => ranked,
                        }
                    }
                    None => AccessPath::AllCandidates.to_string(),
                }));
                items
            }
        }
    }

    /// Which engine runs it.
    fn engine(&self, engine: EngineSpec) -> String {
        match self {
            Self::Similarity { condition, .. } => engine.explain(platform(), *condition),
            Self::Rules { .. } => engine.explain_rules(platform()),
            Self::Nearest { ranking: Some(ranking), searched, .. } => {
                engine.explain_ranking(platform(), ranking, *searched)
            }
            Self::Nearest { ranking: None, .. } => "cpu".to_owned(),
        }
    }
}

/// A condition with its keys in the order of its arguments.
pub(super) fn label(condition: Condition, left: &PhysicalExprRef, right: &PhysicalExprRef) -> String {
    let (first, second) = condition.in_order(left, right);
    format!("{condition} of ({first}, {second})")
}

fn push_unless_empty(items: &mut Vec<Item>, name: &'static str, text: String) {
    if !text.is_empty() {
        items.push((name, text));
    }
}

fn list<T: ToString>(all: &[T]) -> String {
    let all: Vec<_> = all.iter().map(ToString::to_string).collect();
    if all.is_empty() { String::new() } else { format!("[{}]", all.join(", ")) }
}

fn filters(all: &[JoinFilter]) -> String {
    let all: Vec<_> = all.iter().map(|filter| filter.expression().to_string()).collect();
    all.join(" AND ")
}
