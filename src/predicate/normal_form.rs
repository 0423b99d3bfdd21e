//! A join condition as an OR of ANDs.

use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};

use super::{Band, Side, Sides, mentions_measure, truth};

/// `common AND (clause OR clause ...)`: the disjunctive normal form of a condition, up to what all clauses share.
///
/// Negations stand before atoms only and are folded into comparisons. SQL's three-valued logic allows all of it: AND
/// and OR distribute and De Morgan's laws hold with NULL as the third value, and a pair matches where the whole is
/// TRUE, that is where every conjunct of `common` and every atom of some clause is TRUE.
#[derive(Debug, Clone, PartialEq)]
pub struct NormalForm {
    /// Conjuncts that every clause shares, as written.
    pub common: Vec<Expr>,
    /// Clauses, at least two, each an AND of its atoms; empty where the condition is a plain conjunction.
    pub clauses: Vec<Vec<Expr>>,
}

/// A condition with more clauses than the session allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooManyClauses {
    /// What the session allows.
    pub most: usize,
}

impl NormalForm {
    /// Takes `condition` apart. An OR that no access path could serve (it has no measure, equality or band of both
    /// sides) stays whole, as one conjunct.
    ///
    /// # Errors
    /// Where there are more than `most` clauses.
    pub fn of(condition: &Expr, sides: Sides<'_>, most: usize) -> Result<Self, TooManyClauses> {
        let mut common = Vec::new();
        let mut clauses = vec![Vec::new()];
        for conjunct in truth::conjuncts(condition, sides) {
            let pushed = push_down_negation(conjunct, false);
            for part in split_conjunction(&pushed) {
                if is_or(part) && serves(part, sides) {
                    clauses = product(&clauses, &alternatives(part, sides, most)?, most)?;
                } else {
                    common.push(part.clone().unalias());
                }
            }
        }
        if clauses.len() < 2 {
            common.extend(clauses.into_iter().flatten());
            return Ok(Self { common, clauses: Vec::new() });
        }
        clauses.iter_mut().for_each(|clause| forget_repeated(clause, &common));
        let clauses = absorbed(clauses);
        match <[Vec<Expr>; 1]>::try_from(clauses) {
            Ok([only]) => {
                common.extend(only);
                Ok(Self { common, clauses: Vec::new() })
            }
            Err(clauses) => Ok(Self { common, clauses }),
        }
    }

    /// One clause with what it shares with the others, as one expression.
    pub fn clause(&self, index: usize) -> Option<Expr> {
        conjunction(self.common.iter().chain(self.clauses.get(index)?).cloned())
    }
}

pub(super) fn is_or(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_or(&alias.expr),
        Expr::BinaryExpr(BinaryExpr { op, .. }) => *op == Operator::Or,
        _ => false,
    }
}

/// Whether some part of `expr` compares both sides in a way that an index may serve.
fn serves(expr: &Expr, sides: Sides<'_>) -> bool {
    match expr {
        Expr::Alias(alias) => serves(&alias.expr, sides),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => serves(left, sides) || serves(right, sides),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            serves(left, sides) || serves(right, sides) || has_band(expr, sides)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq | Operator::IsNotDistinctFrom, right })
            if sides.order(left, right).is_some() =>
        {
            true
        }
        other => sides.of(other) == Some(Side::Both) && (mentions_measure(other) || has_band(other, sides)),
    }
}

fn has_band(expr: &Expr, sides: Sides<'_>) -> bool {
    let mut conjuncts = split_conjunction(expr).into_iter().cloned().collect();
    !Band::take(&mut conjuncts, sides).is_empty()
}

/// The clauses of one conjunct.
fn alternatives(expr: &Expr, sides: Sides<'_>, most: usize) -> Result<Vec<Vec<Expr>>, TooManyClauses> {
    match expr {
        Expr::Alias(alias) => alternatives(&alias.expr, sides, most),
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) if serves(expr, sides) => {
            let mut all = alternatives(left, sides, most)?;
            all.extend(alternatives(right, sides, most)?);
            if all.len() > most { Err(TooManyClauses { most }) } else { Ok(all) }
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            product(&alternatives(left, sides, most)?, &alternatives(right, sides, most)?, most)
        }
        atom => Ok(vec![vec![atom.clone()]]),
    }
}

/// Every clause of `left` with every clause of `right`.
fn product(left: &[Vec<Expr>], right: &[Vec<Expr>], most: usize) -> Result<Vec<Vec<Expr>>, TooManyClauses> {
    if left.len().saturating_mul(right.len()) > most {
        return Err(TooManyClauses { most });
    }
    let both = |l: &Vec<Expr>, r: &Vec<Expr>| l.iter().chain(r).cloned().collect();
    Ok(left.iter().flat_map(|l| right.iter().map(move |r| both(l, r))).collect())
}

/// Leaves out of a clause what it says twice, or what all clauses say anyway.
fn forget_repeated(clause: &mut Vec<Expr>, common: &[Expr]) {
    let mut kept: Vec<Expr> = Vec::with_capacity(clause.len());
    for atom in clause.drain(..) {
        if !kept.contains(&atom) && !common.contains(&atom) {
            kept.push(atom);
        }
    }
    *clause = kept;
}

/// Clauses without those that another one implies: `A OR (A AND B)` is `A`.
fn absorbed(clauses: Vec<Vec<Expr>>) -> Vec<Vec<Expr>> {
    let implied = |at: usize, clause: &Vec<Expr>| {
        clauses.iter().enumerate().any(|(other, wider)| {
            let narrower = other != at && wider.iter().all(|atom| clause.contains(atom));
            // of two equal clauses the first stays
            narrower && (wider.len() < clause.len() || other < at)
        })
    };
    clauses.iter().enumerate().filter(|(at, clause)| !implied(*at, clause)).map(|(_, clause)| clause.clone()).collect()
}

/// `expr`, or its negation, with NOT before atoms only and BETWEEN as two comparisons.
pub(super) fn push_down_negation(expr: Expr, negated: bool) -> Expr {
    match expr {
        Expr::Alias(alias) => push_down_negation(*alias.expr, negated),
        Expr::Not(inner) => push_down_negation(*inner, !negated),
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let op = match (op, negated) {
                (Operator::And, false) | (Operator::Or, true) => Operator::And,
                _ => Operator::Or,
            };
            let [left, right] = [left, right].map(|side| Box::new(push_down_negation(*side, negated)));
            Expr::BinaryExpr(BinaryExpr { left, op, right })
        }
        Expr::Between(Between { expr, negated: outside, low, high }) => {
            let expr = *expr;
            if outside == negated {
                expr.clone().gt_eq(*low).and(expr.lt_eq(*high))
            } else {
                expr.clone().lt(*low).or(expr.gt(*high))
            }
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if negated => match op.negate() {
            Some(op) if is_comparison(op) => Expr::BinaryExpr(BinaryExpr { left, op, right }),
            _ => Expr::Not(Box::new(Expr::BinaryExpr(BinaryExpr { left, op, right }))),
        },
        other if negated => Expr::Not(Box::new(other)),
        other => other,
    }
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::{col, lit};

    use super::*;

    fn schema(table: &str) -> DFSchema {
        let fields = ["x", "y", "z"].map(|name| Field::new(name, DataType::Int64, true));
        DFSchema::try_from_qualified_schema(table, &Schema::new(fields.to_vec())).unwrap()
    }

    fn form(condition: &Expr, most: usize) -> Result<NormalForm, TooManyClauses> {
        let (left, right) = (schema("l"), schema("r"));
        NormalForm::of(condition, Sides { left: &left, right: &right }, most)
    }

    fn equal(column: &str) -> Expr {
        col(format!("l.{column}")).eq(col(format!("r.{column}")))
    }

    fn small(column: &str) -> Expr {
        col(format!("l.{column}")).lt(lit(5_i64))
    }

    #[test]
    fn clauses_share_what_stands_beside_the_or() {
        let whole = equal("z").and(equal("x").or(equal("y").and(small("y"))));
        let form = form(&whole, 8).unwrap();
        assert_eq!(form.common, [equal("z")]);
        assert_eq!(form.clauses, [vec![equal("x")], vec![equal("y"), small("y")]]);
        assert_eq!(form.clause(0), Some(equal("z").and(equal("x"))));
    }

    #[test]
    fn ors_multiply_up_to_the_limit() {
        let whole = equal("x").or(equal("y")).and(equal("z").or(equal("y").and(small("x"))));
        assert_eq!(form(&whole, 4).unwrap().clauses.len(), 3, "one of four absorbs another");
        let whole = equal("x").or(small("x").and(equal("y"))).and(equal("z").or(small("z").and(equal("z"))));
        assert_eq!(form(&whole, 3), Err(TooManyClauses { most: 3 }));
    }

    #[test]
    fn negations_reach_the_atoms() {
        let whole = Expr::Not(Box::new(equal("x").and(col("l.y").lt(col("r.y"))))).and(equal("z").or(equal("y")));
        let form = form(&whole, 8).unwrap();
        let differ = col("l.x").not_eq(col("r.x")).or(col("l.y").gt_eq(col("r.y")));
        assert_eq!(form.common, [differ], "an OR that no index serves stays whole");
        let outside = col("l.x").not_between(lit(1_i64), lit(2_i64));
        let pushed = push_down_negation(outside.clone(), false);
        assert_eq!(pushed, col("l.x").lt(lit(1_i64)).or(col("l.x").gt(lit(2_i64))));
        assert_eq!(push_down_negation(outside, true), col("l.x").gt_eq(lit(1_i64)).and(col("l.x").lt_eq(lit(2_i64))));
    }

    #[test]
    fn absorption_and_repetition() {
        let whole = equal("x").or(equal("x").and(equal("y"))).or(equal("x").and(equal("x")));
        let form = form(&whole, 8).unwrap();
        assert_eq!(form, NormalForm { common: vec![equal("x")], clauses: vec![] });
    }
}
