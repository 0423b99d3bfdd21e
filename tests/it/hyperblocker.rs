//! The examples of HyperBlocker (PVLDB 2024), sections 2 and 4: Table 1 and the rules phi 1 to phi 3.

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int64Type;
use datafusion_similarity::SimilarityContext;

use crate::session;

/// Table 1: the dash is NULL.
const PRODUCTS: &str = "\
CREATE TABLE products (pno INT, pname VARCHAR, price INT, sname VARCHAR, description VARCHAR, color VARCHAR, address VARCHAR)
AS VALUES
(1, 'Apple Mac Air', 909, 'Comp. World', 'Apple MacBook Air (13-inch, 8GB RAM, 256GB SSD)', 'Gray',
 '9 Barton Grove, McCulloughmouth'),
(2, 'ThinkPad', NULL, 'Smith''s Tech', 'ThinkPad E15, 15.6-inch full HD IPS display, Intel Core i5-1235U processor, (16GB) RAM 512GB PCIe SSD)',
 'Gray', 'Seg Plaza, Hua qiang North Road'),
(3, 'ThinkPad', 849, 'Smith''s Tech', 'Lenovo E15 Business ThinkPad, 15.6-inch full HD IPS display, 12 generation Intel Core i5, 16GB RAM, 512GB SSD',
 'Gray', 'Seg Plaza, Hua qiang North Road'),
(4, 'MacBook Air', 909, 'Comp. World', 'Apple 2022 MacBook Air M2 chip 13-inch, 8 GB RAM, 256 GB SSD storage gray', 'Gray', NULL),
(5, 'MacBook Air', 909, 'Comp. World', NULL, 'Gray', 'Barton Grove, McCulloughmouth')";

/// Example 2, with thresholds at which the witnesses are those that the paper names.
const RULE: &str = "\
CREATE MATCHING RULE products ON t, s AS
  (t.color = s.color AND t.price = s.price AND t.sname = s.sname AND levenshtein(t.pname, s.pname) <= 10)
  OR (t.sname = s.sname AND jaccard(word_tokens(t.description), word_tokens(s.description)) >= 0.5)
  OR (levenshtein(t.address, s.address) <= 2 AND jaccard(word_tokens(t.description), word_tokens(s.description)) >= 0.5)";

/// Whether each rule is a witness at the pairs (t, s) with t before s.
async fn witnesses(enabled: bool) -> Vec<(i64, i64, [bool; 3], i64)> {
    let context = session(8192, 2);
    context.sql(PRODUCTS).await.unwrap();
    context.similarity_sql(RULE).await.unwrap();
    context.sql(&format!("SET similarity.enabled = {enabled}")).await.unwrap();
    let query = "
        SELECT CAST(a.pno AS BIGINT), CAST(b.pno AS BIGINT), match_scores('products', a, b) AS scores,
               matched_clause('products', a, b) AS clause
        FROM products a JOIN products b ON match_rule('products', a, b) AND a.pno < b.pno ORDER BY 1, 2";
    let frame = context.similarity_sql(query).await.unwrap();
    let plan = frame.clone().create_physical_plan().await.unwrap();
    let text = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
    assert_eq!(text.contains("MatchingDependencyBlockExec"), enabled, "{text}");
    let mut found = Vec::new();
    for batch in frame.collect().await.unwrap() {
        let number = |column: usize, row: usize| batch.column(column).as_primitive::<Int64Type>().value(row);
        for row in 0..batch.num_rows() {
            let (t, s) = (number(0, row), number(1, row));
            let mut rules = [false; 3];
            for (rule, holds) in rules.iter_mut().enumerate() {
                *holds = holds_alone(rule, t, s, enabled).await;
            }
            found.push((t, s, rules, number(3, row)));
        }
    }
    found
}

/// Whether one rule alone holds.
async fn holds_alone(rule: usize, t: i64, s: i64, enabled: bool) -> bool {
    let context = session(8192, 1);
    context.sql(PRODUCTS).await.unwrap();
    context.sql(&format!("SET similarity.enabled = {enabled}")).await.unwrap();
    let clause = RULE.split_once("AS\n").unwrap().1.split("\n  OR ").nth(rule).unwrap();
    let query = format!("SELECT 1 FROM products t JOIN products s ON {clause} AND t.pno = {t} AND s.pno = {s}");
    let frame = context.sql(&query).await.unwrap();
    let plan = frame.clone().create_physical_plan().await.unwrap();
    let text = datafusion::physical_plan::displayable(plan.as_ref()).indent(false).to_string();
    assert_eq!(text.contains("SimilarityJoinExec") || text.contains("MatchingDependencyBlockExec"), enabled, "{text}");
    frame.count().await.unwrap() == 1
}

#[tokio::test]
async fn the_witnesses_are_those_of_the_paper() {
    let found = witnesses(true).await;
    let at = |t, s| found.iter().find(|(a, b, ..)| (*a, *b) == (t, s));
    // examples 3 and 4: phi 1 is a witness at (t1, t4), phi 3 is not, because an address is missing
    let (_, _, rules, clause) = at(1, 4).expect("t1 and t4 match");
    assert!(rules[0] && !rules[2] && *clause == 1);
    // and phi 1 is none at (t2, t3), because a price is missing; phi 2 is
    let (_, _, rules, clause) = at(2, 3).expect("t2 and t3 match");
    assert!(!rules[0] && rules[1] && rules[2] && *clause == 2);
    // example 9: at (t1, t5) phi 2 fails on a missing description, and phi 1 holds
    let (_, _, rules, clause) = at(1, 5).expect("t1 and t5 match");
    assert!(rules[0] && !rules[1] && *clause == 1);
    // the entities of the table: {t1, t4, t5} and {t2, t3}
    let pairs: Vec<_> = found.iter().map(|(t, s, ..)| (*t, *s)).collect();
    assert_eq!(pairs, [(1, 4), (1, 5), (2, 3), (4, 5)]);
    assert_eq!(found, witnesses(false).await);
}
