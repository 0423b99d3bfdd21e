//! What a join's condition is, and why a join is left to stock DataFusion.

use datafusion::common::NullEquality;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{BinaryExpr, Expr, Join, JoinType, Operator, lit};
use similarity_engine::recall::Recall;

use super::same_input::same_table;
use super::subquery::is_constant;
use crate::functions::{contract, recalled, without_recall};
use crate::predicate::{Sides, mentions_measure};
use crate::program::{Claim, Compiled, Declined, Rules, compile};

/// Everything that a join requires of a pair, in one expression.
pub(super) struct JoinCondition {
    /// The equality keys of the join and its filter, without the mark of the contract.
    pub whole: Expr,
    /// Whether the query says SIMILARITY JOIN.
    pub contract: bool,
    /// The share of pairs that it has to find, where it may miss some.
    pub recall: Option<Recall>,
}

impl JoinCondition {
    pub(super) fn of(join: &Join) -> Self {
        let equality = match join.null_equality {
            NullEquality::NullEqualsNothing => Operator::Eq,
            NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
        };
        let keys = join.on.iter();
        let keys = keys.map(|(l, r)| Expr::BinaryExpr(BinaryExpr::new(l.clone().into(), equality, r.clone().into())));
        let mut condition = Self { whole: lit(true), contract: false, recall: None };
        let mut conjuncts: Vec<Expr> = keys.collect();
        join.filter.iter().flat_map(split_conjunction).for_each(|conjunct| condition.add(conjunct, &mut conjuncts));
        condition.whole = conjunction(conjuncts).unwrap_or(condition.whole);
        // around a part of it, a recall allows nothing
        if let Ok(whole) = without_recall(condition.whole.clone()) {
            condition.whole = whole.data;
        }
        condition
    }

    /// What is taken from stock's hash join.
    fn claim(&self, join: &Join) -> Claim {
        match self.contract {
            true => Claim::Contract,
            false if same_table(&join.left, &join.right) => Claim::OneTable,
            false => Claim::Similar,
        }
    }

    /// Adds a part of the filter, without what stands around it. Of several recalls the largest one holds for all.
    fn add(&mut self, conjunct: &Expr, conjuncts: &mut Vec<Expr>) {
        if let Some(condition) = contract::marked(conjunct) {
            self.contract = true;
            split_conjunction(condition).into_iter().for_each(|part| self.add(part, conjuncts));
        } else if let Some((condition, recall)) = recalled(conjunct) {
            self.recall = Some(self.recall.map_or(recall, |other| if other < recall { recall } else { other }));
            split_conjunction(condition).into_iter().for_each(|part| self.add(part, conjuncts));
        } else {
            conjuncts.push(conjunct.clone());
        }
    }
}

/// Why `join` is not accelerated, `None` where it is. Its condition may have up to `most_clauses` clauses.
///
/// For a join without any similarity condition the reason is of interest only under the contract.
pub(super) fn why_declined(join: &Join, condition: &JoinCondition, most_clauses: usize) -> Option<String> {
    if matches!(join.join_type, JoinType::LeftMark | JoinType::RightMark) {
        return Some("EXISTS or IN under OR or NOT becomes a mark join, which is left to stock DataFusion".into());
    }
    if join.null_aware {
        return Some("NOT IN is a null-aware anti join, which is left to stock DataFusion; write NOT EXISTS".into());
    }
    if condition.whole.is_volatile() {
        return Some(format!("the condition {} calls a volatile function", condition.whole.human_display()));
    }
    if !is_constant(&condition.whole) {
        return Some("a sub-query in ON is left to stock DataFusion until it is a join of its own".into());
    }
    let sides = Sides { left: join.left.schema(), right: join.right.schema() };
    match compile(&condition.whole, sides, most_clauses, condition.claim(join)) {
        Ok(Compiled::Rules(rules)) if condition.contract => all_pairs(&rules),
        Ok(_) => None,
        Err(declined) => Some(declined.explain(&condition.whole)),
    }
}

/// The first clause that only all pairs would answer.
fn all_pairs(rules: &Rules) -> Option<String> {
    let clause = rules.without_entry().next()?;
    Some(format!(
        "clause {}, {}: it has no equality of both sides, no band and no similarity condition, so that all pairs would be compared",
        clause + 1,
        rules.describe(clause)
    ))
}

/// Whether a reason to decline a join of `sides` tells a user something: it has a similarity condition, the contract,
/// or more clauses than the session allows.
pub(super) fn is_worth_telling(condition: &JoinCondition, sides: Sides<'_>, most_clauses: usize) -> bool {
    let too_many = || {
        let claim = if condition.contract { Claim::Contract } else { Claim::Similar };
        let compiled = compile(&condition.whole, sides, most_clauses, claim);
        matches!(compiled, Err(Declined::TooManyClauses(_)))
    };
    condition.contract || mentions_measure(&condition.whole) || too_many()
}

/// The first condition of `expr` that still carries the mark of the contract.
pub(super) fn surviving_mark(expr: &Expr) -> Option<Expr> {
    let mut found = None;
    // the closure never fails
    let _ = expr.apply(|e| {
        if let Some(condition) = contract::marked(e) {
            found = Some(condition.clone());
            return Ok(TreeNodeRecursion::Stop);
        }
        Ok(TreeNodeRecursion::Continue)
    });
    found
}
