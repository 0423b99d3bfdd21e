//! Every join against stock DataFusion with the rule off: the same rows over random tables, predicates, join types,
//! string types, batch sizes and partitions.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, Date32Array, Float64Array, Int8Array, Int64Array, ListBuilder, RecordBatch, StringArray, StringBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::datasource::MemTable;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::SessionContext;
use datafusion_similarity::SimilarityContext;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

use crate::cuda::cases_on_device;
use crate::replay::{self, Case};
use crate::rows::Rows;
use crate::session;

const TABLES: u64 = 40;
const RULE_TABLES: u64 = 36;
const LARGE_TABLES: u64 = 2;
const BAND_TABLES: u64 = 12;
const DENSE_TABLES: u64 = 6;
pub(crate) const QUERIES_PER_TABLE: usize = 20;

/// Rows of a table.
pub(crate) const SMALL: &[usize] = &[0, 1, 5, 23, 40];

/// What is asked of what.
#[derive(Clone, Copy)]
pub(crate) struct Cases {
    /// A table at random, of one of these numbers of rows.
    pub table: fn(&mut StdRng, &[usize]) -> MemTable,
    pub sizes: &'static [usize],
    /// A condition at random.
    pub condition: fn(&mut StdRng) -> String,
    /// A query at random with a condition.
    pub query: fn(&mut StdRng, &str) -> String,
    /// What has to be in so many tenths of the plans at least.
    pub operator: &'static str,
    pub tenths: usize,
    /// Statements before the queries.
    pub settings: &'static [&'static str],
}

/// One similarity condition over strings or lists.
pub(crate) const TEXTS: Cases = Cases {
    table: random_table,
    sizes: SMALL,
    condition: random_condition,
    query: random_query,
    operator: "SimilarityJoinExec",
    tenths: 6,
    settings: &[],
};
/// An OR of ANDs.
pub(crate) const RULES: Cases = Cases { condition: random_rules, operator: "MatchingDependencyBlockExec", ..TEXTS };
/// Semi and anti joins of rows with very many partners, or none.
pub(crate) const DENSE: Cases =
    Cases { condition: random_dense, query: random_semi_join, sizes: &[0, 300, 1300], operator: "engine=", ..TEXTS };
/// Differences between two constants, and places between two values.
pub(crate) const BANDS: Cases = Cases { condition: random_bands, tenths: 8, ..RULES };

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn same_rows_as_stock() {
    check(0..TABLES, TEXTS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_have_the_same_rows_as_stock() {
    check(1000..1000 + RULE_TABLES, RULES).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bands_have_the_same_rows_as_stock() {
    check(3000..3000 + BAND_TABLES, BANDS).await;
    let large = Cases { sizes: &[600], operator: "band [", tenths: 4, ..BANDS };
    check(4000..4000 + 2 * LARGE_TABLES, large).await;
}

/// Measures whose arguments have an order, over sides of all sizes, so that either of them is indexed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asymmetric_measures_have_the_same_rows_as_stock() {
    let sizes = &[1, 10, 60, 150];
    check(5000..5010, Cases { condition: |rng| about(rng, "containment", random_condition), sizes, ..TEXTS }).await;
    check(5100..5110, Cases { condition: |rng| about(rng, "tversky", random_condition), sizes, ..TEXTS }).await;
    check(5200..5205, Cases { condition: |rng| about(rng, "containment", random_rules), sizes, ..RULES }).await;
}

/// So many rows that the index of a similarity is cheaper than a pass over all pairs of a group.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_entered_by_an_index_have_the_same_rows_as_stock() {
    check(2000..2000 + LARGE_TABLES, Cases { sizes: &[600], operator: "index [", tenths: 3, ..RULES }).await;
}

/// So many pairs that rows which have a partner are kept away from the index.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn semi_joins_of_many_pairs_have_the_same_rows_as_stock() {
    check(7000..7000 + DENSE_TABLES, DENSE).await;
}

/// Every access path, and every join without what is put around an index.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forced_choices_have_the_same_rows_as_stock() {
    let paths: [&[&str]; 3] = [
        &["SET similarity.overrides = 'access_path=prefix index, small_groups=off'"],
        &["SET similarity.overrides = 'access_path=segment index, small_groups=off'"],
        &["SET similarity.overrides = 'access_path=signature tiles, small_groups=off'"],
    ];
    for (n, settings) in (0..).zip(paths) {
        check(6000 + 10 * n..6006 + 10 * n, Cases { settings, ..TEXTS }).await;
    }
    check(6100..6103, Cases { settings: &["SET similarity.overrides = 'settled=off'"], ..DENSE }).await;
}

/// Every joined row is compared with a nested loop, and so are rows that are not joined.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn complete_verification_finds_nothing_to_say() {
    let settings = &["SET similarity.verify = 'complete'"];
    check(6200..6208, Cases { settings, ..TEXTS }).await;
    check(6300..6304, Cases { settings, ..RULES }).await;
    check(6400..6403, Cases { settings, ..DENSE }).await;
}

/// A condition about one measure.
pub(crate) fn about(rng: &mut StdRng, measure: &str, random: fn(&mut StdRng) -> String) -> String {
    loop {
        let condition = random(rng);
        if condition.split(|c: char| c != '_' && !c.is_alphanumeric()).any(|word| word == measure) {
            return condition;
        }
    }
}

/// Runs random queries over random tables, one pair of tables a seed; where `SIMILARITY_SEED` names one, only that.
pub(crate) async fn check(seeds: std::ops::Range<u64>, what: Cases) {
    let Cases { operator, tenths, .. } = what;
    if let Some(asked) = replay::asked() {
        if seeds.contains(&asked.seed) {
            check_tables(asked.seed, what).await;
        }
        return;
    }
    let tables = cases_on_device(seeds.clone().count());
    let (seeds, cases) = (seeds.start..seeds.start + tables as u64, tables * QUERIES_PER_TABLE);
    let halves = (0..2).map(|half| {
        let seeds = seeds.clone();
        tokio::spawn(async move {
            let mut accelerated = 0;
            for seed in seeds.skip(half).step_by(2) {
                accelerated += check_tables(seed, what).await;
            }
            accelerated
        })
    });
    let mut accelerated = 0;
    for half in futures::future::join_all(halves).await {
        accelerated += half.unwrap();
    }
    println!("{accelerated} of {cases} cases accelerated by {operator}");
    assert!(accelerated * 10 > cases * tenths, "only {accelerated} of {cases} cases were accelerated");
}

/// Runs random queries over random tables and returns how many of them were accelerated.
async fn check_tables(seed: u64, Cases { table, sizes, condition, query, operator, settings, .. }: Cases) -> usize {
    let mut rng = StdRng::seed_from_u64(seed);
    // batches of one row make large tables slow and test nothing more
    let batch_sizes: &[usize] = if sizes == SMALL { &[1, 7, 8192] } else { &[64, 8192] };
    let batch_size = *batch_sizes.choose(&mut rng).unwrap();
    let partitions = *[1, 4].choose(&mut rng).unwrap();
    let context = session(batch_size, partitions);
    for name in ["l", "r"] {
        context.register_table(name, Arc::new(table(&mut rng, sizes))).unwrap();
    }
    for setting in settings {
        context.sql(setting).await.unwrap();
    }
    let mut accelerated = 0;
    let asked = replay::asked();
    for number in 0..QUERIES_PER_TABLE {
        let condition = condition(&mut rng);
        let query = query(&mut rng, &condition);
        if let Some(asked) = asked {
            if asked.query.is_some_and(|query| query != number) {
                continue;
            }
            let case = Case::of(&context, &["l", "r"], settings, &query).await;
            println!("-- seed {seed}, query {number}\n{}", case.script());
        }
        let (expected, stock) = match run(&context, &query, false).await {
            Ran::Rows(rows, plan) => (rows, plan),
            // what fails in stock may fail here
            Ran::Failed(_) | Ran::Refused => continue,
        };
        assert!(!stock.contains(operator), "seed {seed}: {stock}");
        let (rows, plan) = match run(&context, &query, true).await {
            Ran::Rows(rows, plan) => (rows, plan),
            Ran::Refused => continue,
            Ran::Failed(error) => panic!("seed {seed}: {query}: {error}"),
        };
        if rows != expected {
            let case = Case::of(&context, &["l", "r"], settings, &query).await.shrunk(differs).await;
            panic!(
                "other rows than stock: SIMILARITY_SEED={seed}:{number} asks this case again; {query}\n{plan}\n\
                 as few rows as differ:\n{}",
                case.script()
            );
        }
        accelerated += usize::from(plan.contains(operator));
    }
    accelerated
}

/// Whether a query has other rows than in stock.
async fn differs(context: &SessionContext, query: &str) -> bool {
    let (stock, ours) = (run(context, query, false).await, run(context, query, true).await);
    matches!((stock, ours), (Ran::Rows(expected, _), Ran::Rows(rows, _)) if rows != expected)
}

/// How a query ended.
enum Ran {
    /// The rows, and the plan.
    Rows(Rows, String),
    /// SIMILARITY JOIN refuses the condition, as its contract has it.
    Refused,
    Failed(String),
}

async fn run(context: &SessionContext, query: &str, enabled: bool) -> Ran {
    context.sql(&format!("SET similarity.enabled = {enabled}")).await.unwrap();
    let frame = context.similarity_sql(query).await.unwrap_or_else(|e| panic!("{query}: {e}"));
    let plan = match frame.create_physical_plan().await {
        Ok(plan) => plan,
        Err(e) => {
            let refused = e.to_string().contains("SIMILARITY JOIN cannot be accelerated");
            assert!(refused && enabled && query.contains("SIMILARITY"), "{query}: {e}");
            return Ran::Refused;
        }
    };
    let collected = collect(Arc::clone(&plan), context.task_ctx()).await;
    // an operator that has run shows what it has chosen
    let text = displayable(plan.as_ref()).indent(false).to_string();
    let batches = match collected {
        Ok(batches) => batches,
        Err(e) => return Ran::Failed(format!("{e}\n{text}")),
    };
    Ran::Rows(Rows::new(plan.schema(), batches), text)
}

/// id, s (strings with near duplicates), k (a few values), n (a few floats, signed zeros and NaN), l (lists), d and
/// until (days), t (bytes).
pub(crate) fn random_table(rng: &mut StdRng, sizes: &[usize]) -> MemTable {
    let rows = *sizes.choose(rng).unwrap();
    let strings: Vec<_> = (0..rows).map(|_| random_string(rng)).collect();
    let keys: Vec<_> =
        (0..rows).map(|_| [Some("x"), Some("y"), Some("X"), None].choose(rng).copied().flatten()).collect();
    let floats: Vec<_> = (0..rows)
        .map(|_| {
            [Some(0.0), Some(-0.0), Some(1.5), Some(f64::NAN), Some(f64::INFINITY), None].choose(rng).copied().flatten()
        })
        .collect();
    let mut days = || Some(20_000 + rng.random_range(0..40)).filter(|_| rng.random_bool(0.9));
    let days: Vec<[Option<i32>; 2]> = (0..rows).map(|_| [days(), days()]).collect();
    let [days, until] = [0, 1].map(|n| Arc::new(days.iter().map(|d| d[n]).collect::<Date32Array>()) as ArrayRef);
    // differences of bytes wrap around in few tables, which are then left to stock
    let most = if rng.random_bool(0.1) { 127 } else { 60 };
    let bytes: Int8Array =
        (0..rows).map(|_| Some(rng.random_range(-most..=most)).filter(|_| rng.random_bool(0.9))).collect();
    let mut lists = ListBuilder::new(StringBuilder::new());
    for _ in 0..rows {
        for _ in 0..rng.random_range(0..6) {
            lists.values().append_option(["a", "b", "c", "d", "", "é"].choose(rng).filter(|_| rng.random_bool(0.9)));
        }
        lists.append(rng.random_bool(0.9));
    }
    let string_type = [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
    ];
    let s = cast(&(Arc::new(StringArray::from(strings)) as ArrayRef), string_type.choose(rng).unwrap()).unwrap();
    let columns: Vec<(&str, ArrayRef, bool)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows as i64)), true),
        ("s", s, true),
        ("k", Arc::new(StringArray::from(keys)), true),
        ("n", Arc::new(Float64Array::from(floats)), true),
        ("l", Arc::new(lists.finish()), true),
        ("d", days, true),
        ("until", until, true),
        ("t", Arc::new(bytes), true),
    ];
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let cut = rows / 3;
    let parts = vec![vec![batch.slice(0, cut)], vec![batch.slice(cut, rows - cut)]];
    MemTable::try_new(batch.schema(), parts).unwrap()
}

/// Words of a skewed vocabulary, with typos, blanks, repeats, non-ASCII and now and then something long.
pub(crate) fn random_string(rng: &mut StdRng) -> Option<String> {
    const WORDS: [&str; 9] = ["the", "the", "the", "data", "fusion", "müller", "Straße", "ab", "x"];
    match rng.random_range(0..20) {
        0 => return None,
        1 => return Some(String::new()),
        2 => return Some(" - ".into()),
        3 => return Some(["ab", "a"].choose(rng).unwrap().repeat(rng.random_range(1..150))),
        _ => {}
    }
    let words: Vec<_> = (0..rng.random_range(1..5)).map(|_| *WORDS.choose(rng).unwrap()).collect();
    let mut text: Vec<char> = words.join(" ").chars().collect();
    for _ in 0..rng.random_range(0..3) {
        let at = rng.random_range(0..text.len());
        match rng.random_range(0..4) {
            0 => text[at] = *['a', 'e', 'ß', '日'].choose(rng).unwrap(),
            1 if text.len() > 1 => drop(text.remove(at)),
            2 if at > 0 => text.swap(at, at - 1),
            _ => text.insert(at, 'q'),
        }
    }
    Some(text.into_iter().collect())
}

pub(crate) fn random_query(rng: &mut StdRng, condition: &str) -> String {
    let right = if rng.random_bool(0.3) { "l" } else { "r" };
    match rng.random_range(0..14) {
        0 => format!("SELECT a.id, b.id FROM l a, {right} b WHERE {condition}"),
        1 => format!("SELECT a.* FROM l a WHERE EXISTS (SELECT 1 FROM {right} b WHERE {condition})"),
        2 => format!("SELECT a.id FROM l a WHERE NOT EXISTS (SELECT 1 FROM {right} b WHERE {condition})"),
        3 => format!("SELECT a.id FROM l a WHERE a.k IN (SELECT b.k FROM {right} b WHERE {condition})"),
        4 => format!("SELECT count(*) FROM l a JOIN {right} b ON {condition}"),
        5 => format!("SELECT a.s, b.n FROM l a SIMILARITY JOIN {right} b ON {condition} WHERE a.id > 3"),
        kind => {
            let join = ["", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI", "RIGHT SEMI", "RIGHT ANTI"][kind - 6];
            format!("SELECT * FROM l a {join} JOIN {right} b ON {condition}")
        }
    }
}

fn random_semi_join(rng: &mut StdRng, condition: &str) -> String {
    let right = if rng.random_bool(0.5) { "l" } else { "r" };
    match rng.random_range(0..6) {
        0 => format!("SELECT a.* FROM l a WHERE EXISTS (SELECT 1 FROM {right} b WHERE {condition})"),
        1 => format!("SELECT a.id FROM l a WHERE NOT EXISTS (SELECT 1 FROM {right} b WHERE {condition})"),
        kind => {
            let join = ["LEFT SEMI", "LEFT ANTI", "RIGHT SEMI", "RIGHT ANTI"][kind - 2];
            format!("SELECT * FROM l a {join} JOIN {right} b ON {condition}")
        }
    }
}

/// What holds for many pairs or for most of them, some of which a residual may turn away again.
fn random_dense(rng: &mut StdRng) -> String {
    let k = *[40, 200, 500, 1000, 2000].choose(rng).unwrap();
    let often = [
        format!("abs(a.id - b.id) <= {k}"),
        format!("b.id BETWEEN a.id - {k} AND a.id + 100"),
        format!("a.id >= b.id - {k} AND a.id < 2 * b.id"),
        format!("(abs(a.id - b.id) <= {k} OR a.s = b.s)"),
        format!("(a.k = b.k AND abs(a.id - b.id) <= {k} OR abs(a.id - b.id) <= 20)"),
        "levenshtein(a.s, b.s) <= 12".to_owned(),
        "jaccard(word_tokens(a.s), word_tokens(b.s)) >= 0.2".to_owned(),
        "a.k = b.k AND overlap_count(a.l, b.l) >= 1".to_owned(),
    ];
    let residual = [
        "a.id <> b.id",
        "a.id < b.id",
        "a.s <> b.s",
        "a.k = b.k",
        "a.n + b.n > 1",
        "a.id + b.id < 300",
        "a.id % 7 = b.id % 7 + 6",
        "a.id * b.id < -1",
        "a.id > 1100",
    ];
    let mut conjuncts = vec![often.choose(rng).unwrap().clone()];
    let more = [0, 1, 1, 2][rng.random_range(0..4)];
    conjuncts.extend(residual.choose_multiple(rng, more).map(|&condition| condition.to_owned()));
    conjuncts.join(" AND ")
}

/// One similarity condition, perhaps equality keys, perhaps a residual, in any order.
pub(crate) fn random_condition(rng: &mut StdRng) -> String {
    let mut conjuncts = vec![random_similarity(rng)];
    if rng.random_bool(0.4) {
        conjuncts.push(
            ["a.k = b.k", "(a.k IS NOT DISTINCT FROM b.k)", "b.n = a.n", "lower(a.k) = lower(b.k)", "a.id = b.id + 1"]
                .choose(rng)
                .unwrap()
                .to_string(),
        );
    }
    if rng.random_bool(0.5) {
        conjuncts.push(
            [
                "a.id < b.id",
                "a.id <> b.id",
                "b.id < a.id",
                "a.s <> b.s",
                "a.n + b.n > 1",
                "a.k LIKE 'x%'",
                "length(b.s) > 3",
                "a.id + b.id < 40 OR a.k = b.k",
            ]
            .choose(rng)
            .unwrap()
            .to_string(),
        );
    }
    if rng.random_bool(0.15) {
        conjuncts.push(random_similarity(rng));
    }
    let shift = rng.random_range(0..conjuncts.len());
    conjuncts.rotate_left(shift);
    conjuncts.join(" AND ")
}

/// An OR of up to eight ANDs of up to six atoms out of a few, some of which stand in several clauses; perhaps with
/// something that all clauses share, nested or negated.
fn random_rules(rng: &mut StdRng) -> String {
    let atoms: Vec<String> = (0..rng.random_range(2..9)).map(|_| random_atom(rng)).collect();
    let clauses = (0..rng.random_range(1..9)).map(|_| {
        let mut clause: Vec<String> =
            (0..rng.random_range(1..5)).map(|_| format!("({})", atoms.choose(rng).unwrap())).collect();
        if !rng.random_bool(0.1) {
            clause.push(random_key(rng));
        }
        if rng.random_bool(0.1) {
            clause.push(format!("({} OR {})", random_key(rng), atoms.choose(rng).unwrap()));
        }
        clause.join(" AND ")
    });
    let clauses: Vec<String> = clauses.collect();
    let clauses = clauses.join(" OR ");
    match rng.random_range(0..8) {
        0 => format!("({clauses}) AND a.id < b.id"),
        1 => format!("({clauses}) AND {}", random_key(rng)),
        2 => format!("NOT (NOT ({clauses}) OR a.id = b.id)"),
        3 => format!("({clauses}) AND a.k IS NOT NULL AND b.id <> a.id"),
        _ => clauses,
    }
}

/// An AND, or an OR of two, with a band in each clause.
fn random_bands(rng: &mut StdRng) -> String {
    let clauses = (0..rng.random_range(1..3)).map(|_| match rng.random_range(0..5) {
        0 => format!("{} AND {}", random_band(rng), random_band(rng)),
        1 => format!("{} AND a.id < b.id", random_band(rng)),
        2 => format!("a.k = b.k AND {} AND {}", random_similarity(rng), random_band(rng)),
        3 => format!("{} AND {}", random_band(rng), random_atom(rng)),
        _ => random_band(rng),
    });
    let clauses: Vec<String> = clauses.map(|clause| format!("({clause})")).collect();
    clauses.join(" OR ")
}

fn random_key(rng: &mut StdRng) -> String {
    match rng.random_range(0..10) {
        0..3 => return random_similarity(rng),
        3..5 => return random_band(rng),
        _ => {}
    }
    ["a.k = b.k", "(a.k IS NOT DISTINCT FROM b.k)", "b.n = a.n", "lower(a.k) = lower(b.k)", "a.s = b.s", "a.id = b.id"]
        .choose(rng)
        .unwrap()
        .to_string()
}

pub(crate) fn random_atom(rng: &mut StdRng) -> String {
    match rng.random_range(0..10) {
        0..4 => random_similarity(rng),
        4..6 => random_key(rng),
        _ => [
            "a.k = 'x'",
            "b.k IN ('x', 'X')",
            "a.k IN ('x', 'y', NULL)",
            "(a.k = b.k OR a.k <> b.k OR a.k IS NULL OR b.k IS NULL)",
            "a.k = 'x' AND a.k = 'y'",
            "b.k IS NULL",
            "(a.k IS NULL OR b.k IS NULL)",
            "(b.k = 'x' OR a.n > 1 OR NOT a.k = 'y')",
            "a.n > 1",
            "a.n + b.n > 1",
            "NOT (a.k = b.k AND a.n = b.n)",
            "TRUE",
            "FALSE",
            "NULL",
            "levenshtein(a.s, b.s) >= 0",
            "jaccard(word_tokens(a.s), word_tokens(b.s)) < 0.5",
            "a.k LIKE 'x%'",
            "length(b.s) > 3",
            "levenshtein(a.s, b.s) < length(a.s)",
        ]
        .choose(rng)
        .unwrap()
        .to_string(),
    }
}

/// A band over whole numbers, floats with their oddities, days, or bytes that wrap around.
pub(crate) fn random_band(rng: &mut StdRng) -> String {
    let (k, e) = (rng.random_range(-1..6), ["0", "1.5", "0.5", "3"].choose(rng).unwrap());
    let (le, ge) = (["<=", "<"].choose(rng).unwrap(), [">=", ">"].choose(rng).unwrap());
    match rng.random_range(0..14) {
        0 => format!("abs(a.id - b.id) {le} {k}"),
        1 => format!("{k} >= abs(b.id - a.id)"),
        2 => format!("a.id BETWEEN b.id - {k} AND b.id + 2"),
        3 => format!("b.id {ge} a.id - 1 AND b.id {le} a.id * 2"),
        4 => format!("(a.id - b.id {le} {k} AND b.id - a.id {le} 2)"),
        5 => format!("abs(a.n - b.n) {le} {e}"),
        6 => format!("a.n - b.n BETWEEN -{e} AND {e}"),
        7 => format!("a.n BETWEEN b.n AND b.n + {e}"),
        8 => format!("(a.n {le} b.n + {e} AND {e} + b.n > a.n AND a.n {ge} b.n)"),
        9 => format!("b.d BETWEEN a.d - INTERVAL '{k} days' AND a.d + INTERVAL '1 day'"),
        10 => "a.d BETWEEN b.d AND b.until".to_owned(),
        11 => format!("abs(a.id - b.n) {le} {e}"),
        12 => format!("(a.n - b.n {ge} -{e} AND b.n - a.n {ge} ({k}))"),
        _ => format!("abs(a.t - b.t) {le} {k}"),
    }
}

pub(crate) fn random_similarity(rng: &mut StdRng) -> String {
    if rng.random_bool(0.5) { random_set_condition(rng) } else { random_edit_condition(rng) }
}

fn random_set_condition(rng: &mut StdRng) -> String {
    let arguments = [
        "word_tokens(a.s), word_tokens(b.s)",
        "word_tokens(lower(b.s)), word_tokens(lower(a.s))",
        "qgrams(a.s, 2), qgrams(b.s, 2)",
        "qgrams(a.s, 3, '#'), qgrams(b.s, 3, '#')",
        "a.s, b.s",
        "b.s, a.s, 2",
        "a.l, b.l",
        "word_tokens(a.s), b.l",
    ];
    let arguments = arguments.choose(rng).unwrap();
    if rng.random_bool(0.2) {
        let count = rng.random_range(0..5);
        return format!("overlap_count({arguments}) {} {count}", [">=", ">", "="].choose(rng).unwrap());
    }
    if rng.random_bool(0.2) {
        return bounded(&tversky(arguments, rng), rng);
    }
    let measure = ["jaccard", "dice", "set_cosine", "overlap_coefficient", "containment"].choose(rng).unwrap();
    if rng.random_bool(0.15) {
        return bounded("similarity(a.s, b.s)", rng);
    }
    bounded(&format!("{measure}({arguments})"), rng)
}

/// The index over two sets, with weights that make it another measure or leave hardly anything of a side among them.
fn tversky(arguments: &str, rng: &mut StdRng) -> String {
    let weights = ["0.8, 0.2", "0.5, 0.5", "1, 0", "0, 1", "0, 0", "1.0, 1.0", "0.25, 3", "1e-16, 1e-11"];
    let weights = weights.choose(rng).unwrap();
    match arguments.strip_suffix(", 2") {
        Some(sets) => format!("tversky({sets}, {weights}, 2)"),
        None => format!("tversky({arguments}, {weights})"),
    }
}

fn random_edit_condition(rng: &mut StdRng) -> String {
    let arguments = *["a.s, b.s", "b.s, a.s", "lower(a.s), lower(b.s)"].choose(rng).unwrap();
    let k = *[0, 1, 2, 2, 3, 5, 8, 100].choose(rng).unwrap();
    let distance = ["levenshtein", "osa_distance", "damerau_levenshtein", "hamming"].choose(rng).unwrap();
    match rng.random_range(0..10) {
        0..5 => {
            let score = format!("{distance}({arguments})");
            match rng.random_range(0..6) {
                0 => format!("{score} < {k}"),
                1 => format!("{k} >= {score}"),
                2 => format!("{score} BETWEEN 1 AND {k}"),
                3 => format!("{score} = {k}"),
                4 => format!("CAST({score} AS DOUBLE) < {k}.5"),
                _ => format!("{score} <= {k}"),
            }
        }
        5 => format!("levenshtein_less_equal({arguments}, {k}) <= {}", rng.random_range(0..=k)),
        6 => bounded(&format!("jaro_similarity({arguments})"), rng),
        7 => bounded(&jaro_winkler(arguments, rng), rng),
        _ => bounded(&format!("levenshtein_similarity({arguments})"), rng),
    }
}

/// The similarity with constants at either end of their ranges and between them, or without any.
fn jaro_winkler(arguments: &str, rng: &mut StdRng) -> String {
    let constants = [
        "",
        "",
        ", 0.1, 0.7",
        ", 0.2",
        ", 0.25, 0",
        ", 0.1, 0.0",
        ", 0.25, 0.5",
        ", 0, 0.5",
        ", 0.249999999999, 0.3",
        ", 0.05, 1",
    ];
    format!("jaro_winkler_similarity({arguments}{})", constants.choose(rng).unwrap())
}

/// Bounds whose thresholds are fractions that scores meet exactly, or lie outside their range.
fn bounded(score: &str, rng: &mut StdRng) -> String {
    let thresholds =
        ["0.25", "0.3333333333333333", "0.5", "0.6666666666666666", "0.75", "0.8", "0.9", "1", "1.0", "2", "0.0"];
    let t = thresholds.choose(rng).unwrap();
    match rng.random_range(0..9) {
        0 => format!("{score} > {t}"),
        1 => format!("{t} <= {score}"),
        2 => format!("{score} = {t}"),
        3 => format!("{score} BETWEEN {t} AND 0.9"),
        4 => format!("{score} >= {t} AND {score} < 1.0"),
        5 => format!("{score} >= 0.1 AND {score} >= {t}"),
        _ => format!("{score} >= {t}"),
    }
}
