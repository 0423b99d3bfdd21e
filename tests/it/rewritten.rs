//! Conditions that say with other words what a plain comparison of a measure with a constant says, against stock
//! DataFusion with the rule off.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::datasource::MemTable;
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

use crate::epsilon::FEW;
use crate::oracle::{BANDS, Cases, RULES, TEXTS, check, random_string, random_table};

/// Conditions written otherwise.
const OTHERWISE: Cases = Cases { table, condition: random_condition, tenths: 4, ..TEXTS };
/// Constants with a decimal point are decimal numbers.
const DECIMAL: &[&str] = &["SET datafusion.sql_parser.parse_float_as_decimal = true"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_written_otherwise_have_the_same_rows_as_stock() {
    check(8000..8024, OTHERWISE).await;
    check(8100..8112, Cases { settings: DECIMAL, ..OTHERWISE }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_written_otherwise_have_the_same_rows_as_stock() {
    let rules = Cases { condition: random_rules, operator: "MatchingDependencyBlockExec", tenths: 5, ..OTHERWISE };
    check(8200..8215, rules).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decimal_constants_have_the_same_rows_as_stock() {
    check(8300..8310, Cases { settings: DECIMAL, ..TEXTS }).await;
    check(8400..8410, Cases { settings: DECIMAL, ..RULES }).await;
    check(8500..8510, Cases { settings: DECIMAL, tenths: 6, ..BANDS }).await;
    // a decimal number has up to 76 places
    let condition = |rng: &mut StdRng| (FEW.condition)(rng).replace("1e300", "1e20");
    check(8600..8610, Cases { settings: DECIMAL, condition, ..FEW }).await;
}

/// Columns as those of other tests have, or without NULL.
fn table(rng: &mut StdRng, sizes: &[usize]) -> MemTable {
    if rng.random_bool(0.7) {
        return random_table(rng, sizes);
    }
    let rows = *sizes.choose(rng).unwrap();
    let strings: Vec<String> = (0..rows).map(|_| random_string(rng).unwrap_or_default()).collect();
    let keys: Vec<&str> = (0..rows).map(|_| *["x", "y", "X"].choose(rng).unwrap()).collect();
    let floats: Vec<f64> = (0..rows).map(|_| *[0.0, -0.0, 1.5, 0.25].choose(rng).unwrap()).collect();
    let columns: [(&str, DataType, ArrayRef); 4] = [
        ("id", DataType::Int64, Arc::new(Int64Array::from_iter_values(0..rows as i64))),
        ("s", DataType::Utf8, Arc::new(StringArray::from(strings))),
        ("k", DataType::Utf8, Arc::new(StringArray::from(keys))),
        ("n", DataType::Float64, Arc::new(Float64Array::from(floats))),
    ];
    let (fields, arrays): (Vec<_>, Vec<_>) =
        columns.into_iter().map(|(name, data_type, array)| (Field::new(name, data_type, false), array)).unzip();
    let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap();
    MemTable::try_new(batch.schema(), vec![vec![batch]]).unwrap()
}

fn random_condition(rng: &mut StdRng) -> String {
    let condition = random_idiom(rng);
    match rng.random_range(0..6) {
        0 => format!("{condition} AND a.id <> b.id"),
        1 => format!("a.k = b.k AND {condition}"),
        2 => format!("{condition} AND {}", random_idiom(rng)),
        _ => condition,
    }
}

fn random_rules(rng: &mut StdRng) -> String {
    let clauses: Vec<String> = (0..rng.random_range(2..5))
        .map(|_| match rng.random_range(0..3) {
            0 => format!("({} AND a.k = b.k)", random_idiom(rng)),
            1 => format!("({} AND a.id < b.id)", random_idiom(rng)),
            _ => format!("({})", random_idiom(rng)),
        })
        .collect();
    clauses.join(" OR ")
}

/// A comparison in the words of logic.
fn random_idiom(rng: &mut StdRng) -> String {
    let (one, other) = (random_comparison(rng), random_comparison(rng));
    match rng.random_range(0..20) {
        0 => format!("(({one}) IS TRUE)"),
        1 => format!("(({one}) IS NOT FALSE)"),
        2 => format!("((NOT ({one})) IS FALSE)"),
        3 => format!("(({one}) = true)"),
        4 => format!("(({one}) IS NOT DISTINCT FROM true)"),
        5 => format!("(CASE WHEN {one} THEN true ELSE false END)"),
        6 => format!("coalesce({one}, false)"),
        7 => format!("NOT (NOT ({one}) OR a.id = b.id)"),
        8 => format!("(CASE WHEN length(a.s) < 8 THEN {one} ELSE {other} END)"),
        9 => format!("(({one}) <> false)"),
        10 => format!("(CASE a.k WHEN 'x' THEN {one} WHEN 'y' THEN {other} END)"),
        11 => format!("NOT coalesce(NOT ({one}), {})", ["true", "false"].choose(rng).unwrap()),
        _ => format!("({one})"),
    }
}

fn random_comparison(rng: &mut StdRng) -> String {
    match rng.random_range(0..12) {
        0..3 => return random_distance(rng),
        3 | 4 => return random_share_of_length(rng),
        _ => {}
    }
    let t = *["0.5", "0.6", "0.75", "0.8", "0.9", "1", "0.3333333333333333", "0.6666666666666666"].choose(rng).unwrap();
    let (score, other) = (random_score(rng), random_score(rng));
    let (ge, le) = (*[">=", ">"].choose(rng).unwrap(), *["<=", "<"].choose(rng).unwrap());
    let c = *["0.1", "1", "2", "3", "0.25", "100"].choose(rng).unwrap();
    match rng.random_range(0..26) {
        0 => format!("1 - {score} {le} 1 - {t}"),
        1 => format!("{c} * {score} {ge} {c} * {t}"),
        2 => format!("{score} / {c} {ge} {t} / {c}"),
        3 => format!("{score} - {c} {ge} {t} - {c}"),
        4 => format!("-{score} {le} -{t}"),
        5 => format!("round({score}, {}) {ge} {t}", rng.random_range(0..4)),
        6 => format!("CAST(100 * {score} AS INT) {ge} 80"),
        7 => format!("CAST({score} AS FLOAT) {ge} {t}"),
        8 => format!("CAST({score} AS DECIMAL(10, 3)) {ge} {t}"),
        9 => format!("sqrt(1 - {score}) {le} 0.5"),
        10 => format!("power({score}, 2) {ge} {t}"),
        11 => format!("ln(1 + {score}) {ge} 0.6"),
        12 => format!("exp({score}) {ge} 2.25"),
        13 => format!("coalesce({score}, 0) {ge} {t}"),
        14 => format!("coalesce({score}, 1) {ge} {t}"),
        15 => format!("greatest({score}, {other}) {ge} {t}"),
        16 => format!("least({score}, {other}) {ge} {t}"),
        17 => format!("0.6 * {score} + 0.4 * {other} {ge} {t}"),
        18 => format!("({score} + {other}) / 2 {ge} {t}"),
        19 => format!("{score} * {other} {ge} {t}"),
        20 => format!("0.8 * {score} + CASE WHEN a.k = b.k THEN 0.2 ELSE 0 END {ge} {t}"),
        21 => format!("1 / (2 - {score}) {ge} {t}"),
        22 => format!("abs(1 - {score}) {le} 1 - {t}"),
        23 => format!("nullif({score}, 1) {ge} {t}"),
        24 => format!("{score} IN (1, {t}, NULL)"),
        _ => format!("{score} {ge} CASE WHEN a.id < 9 THEN 0.9 ELSE {t} END"),
    }
}

fn random_score(rng: &mut StdRng) -> &'static str {
    [
        "jaro_similarity(a.s, b.s)",
        "jaro_winkler_similarity(a.s, b.s)",
        "levenshtein_similarity(b.s, a.s)",
        "jaccard(a.s, b.s, 2)",
        "dice(word_tokens(a.s), word_tokens(b.s))",
        "similarity(a.s, b.s)",
        "overlap_coefficient(a.k, b.k)",
        "set_cosine(a.s, b.s)",
    ]
    .choose(rng)
    .unwrap()
}

fn random_distance(rng: &mut StdRng) -> String {
    let measures =
        ["levenshtein(a.s, b.s)", "osa_distance(a.s, b.s)", "hamming(b.s, a.s)", "damerau_levenshtein(a.s, b.s)"];
    let d = *measures.choose(rng).unwrap();
    let other = *measures.choose(rng).unwrap();
    let k = rng.random_range(0..5);
    match rng.random_range(0..16) {
        0 => format!("{d} IN ({k}, 1)"),
        1 => format!("{d} IN (0, 1, {k}, NULL, 2)"),
        2 => format!("coalesce({d}, 99) <= {k}"),
        3 => format!("coalesce({d}, 0) <= {k}"),
        4 => format!("nvl({d}, 99) < {k}"),
        5 => format!("{d} + 1 <= {k}"),
        6 => format!("{k} - {d} >= 0"),
        7 => format!("{d} * 2 < {k}"),
        8 => format!("{d} / 2 <= 1"),
        9 => format!("NOT ({d} > {k})"),
        10 => format!("greatest({d}, {other}) <= {k}"),
        11 => format!("least({d}, {other}) <= {k}"),
        12 => format!("{d} <= CASE WHEN length(a.s) < 8 THEN 1 ELSE {k} END"),
        13 => format!("CASE WHEN {d} <= 1 THEN 2 WHEN {d} <= {k} THEN 1 ELSE 0 END >= 1"),
        14 => format!("exp(-{d}) >= 0.1"),
        _ => format!("{d} <= {k}.5"),
    }
}

/// An edit distance in proportion to lengths, in integers, doubles, floats and decimal numbers.
fn random_share_of_length(rng: &mut StdRng) -> String {
    let d = *["levenshtein(a.s, b.s)", "osa_distance(b.s, a.s)", "hamming(a.s, b.s)"].choose(rng).unwrap();
    let lengths = *[
        "greatest(length(a.s), length(b.s))",
        "least(length(a.s), length(b.s))",
        "(length(a.s) + length(b.s))",
        "((length(a.s) + length(b.s)) / 2)",
        "length(a.s)",
        "greatest(length(a.s), length(b.s), 1)",
        "nullif(greatest(length(a.s), length(b.s)), 0)",
        "CASE WHEN length(a.s) > length(b.s) THEN length(a.s) ELSE length(b.s) END",
        "(length(a.s) + -6)",
        "length(lower(a.s))",
    ]
    .choose(rng)
    .unwrap();
    let t = *["0.25", "0.2", "0.5", "0.3333333333333333", "0"].choose(rng).unwrap();
    match rng.random_range(0..8) {
        0 | 1 => format!("CAST({d} AS DOUBLE) / {lengths} <= {t}"),
        2 => format!("1 - CAST({d} AS DOUBLE) / {lengths} >= 1 - {t}"),
        3 => format!("{d} * 1.0 / {lengths} < {t}"),
        4 => format!("CAST({d} AS FLOAT) / {lengths} <= {t}"),
        5 => format!("{d} <= {t} * {lengths}"),
        6 => format!("100.0 * {d} / {lengths} <= 25"),
        _ => format!("{lengths} * {t} > {d}"),
    }
}
