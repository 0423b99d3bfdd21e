//! The order in which candidates are verified: the one that the plan chooses against all others.
//!
//! ```console
//! $ python benches/people/generate.py people.parquet 30000
//! $ PEOPLE=people.parquet cargo bench --bench orders
//! ```
//!
//! Five sets of three clauses, each set entered by one equality. Printed are milliseconds to verify all candidates, the
//! best of some runs: the chosen tree, the best and the worst of all orders of clauses and atoms, clauses and atoms as
//! written, cheapest first, most selective first, and the best and the mean of twenty orders at random.

use std::collections::HashMap;
use std::time::Instant;

use datafusion::arrow::array::{ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::{cast, concat_batches};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::prelude::{ParquetReadOptions, SessionContext};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use similarity_engine::atoms::{AtomColumn, AtomCondition, PairConditions, RuleCounters, SideColumns};
use similarity_engine::choice::Engine;
use similarity_engine::condition::{Bounds, Condition};
use similarity_engine::internals::replace_tree;
use similarity_engine::plan::{AtomEstimate, ExecutionTree};
use similarity_engine::rules::{RuleIndex, RuleSource, Run};
use similarity_engine::{BuildContext, Cancel, Cursor, Limit, NO_GROUP, Pairs};
use similarity_measures::{EditMeasure, SetMeasure, Tokenizer};

fn within(k: f64) -> Condition {
    Condition::Edit { measure: EditMeasure::LEVENSHTEIN, bounds: Bounds::at_most(k, true) }
}

fn winkler(score: f64) -> Condition {
    Condition::Edit { measure: EditMeasure::JARO_WINKLER, bounds: Bounds::at_least(score, true) }
}

fn grams(score: f64) -> Condition {
    let tokenizer = Tokenizer::QGrams { q: 2, pad: None };
    Condition::Set { tokenizer, measure: SetMeasure::JACCARD, bounds: Bounds::at_least(score, true) }
}

/// A clause: columns with their tests.
type Clause = Vec<(&'static str, Condition)>;

fn rule_sets() -> Vec<(&'static str, Vec<Clause>)> {
    vec![
        (
            "postcode",
            vec![
                vec![("surname", winkler(0.85)), ("first_name", winkler(0.85)), ("street", within(3.0))],
                vec![("surname", within(2.0)), ("birth_date", within(1.0))],
                vec![("phone", within(2.0)), ("surname", within(2.0))],
            ],
        ),
        (
            "birth_year",
            vec![
                vec![("surname", grams(0.6)), ("first_name", winkler(0.8)), ("email", grams(0.5))],
                vec![("surname", grams(0.6)), ("phone", within(2.0))],
                vec![("email", grams(0.5)), ("street", within(1.0))],
            ],
        ),
        (
            "city",
            vec![
                vec![("first_name", winkler(0.7)), ("surname", winkler(0.7)), ("email", winkler(0.9))],
                vec![("email", within(6.0)), ("birth_date", within(2.0))],
                vec![("occupation", winkler(0.95)), ("surname", within(1.0))],
            ],
        ),
        (
            "surname",
            vec![
                vec![("sex", winkler(1.0)), ("birth_date", within(1.0)), ("first_name", within(2.0))],
                vec![("first_name", within(2.0)), ("street", grams(0.7))],
                vec![("city", winkler(0.9)), ("birth_date", within(1.0))],
            ],
        ),
        (
            "occupation",
            vec![
                vec![("email", grams(0.6)), ("surname", winkler(0.9)), ("sex", winkler(1.0))],
                vec![("phone", within(1.0)), ("sex", winkler(1.0))],
                vec![("birth_date", within(0.0)), ("surname", within(3.0))],
            ],
        ),
    ]
}

/// Of each order, of which the best counts.
const RUNS: usize = 3;

struct NoConditions;

impl PairConditions for NoConditions {
    fn select(&self, _atom: usize, _pairs: &Pairs) -> similarity_engine::Result<Vec<u16>> {
        Ok(Vec::new())
    }
}

fn codes(column: &ArrayRef) -> Vec<u32> {
    let mut known = HashMap::new();
    let texts = column.as_string_view();
    let code = |text: Option<&'_ str>| match text {
        Some(text) => {
            let next = known.len() as u32;
            *known.entry(text.to_owned()).or_insert(next)
        }
        None => NO_GROUP,
    };
    texts.iter().map(code).collect()
}

/// One rule set over the people.
struct Measured {
    index: RuleIndex,
    /// The atoms of each clause without the entry.
    clauses: Vec<(usize, Vec<usize>)>,
}

impl Measured {
    fn new(people: &RecordBatch, entry: &str, clauses: &[Clause]) -> Self {
        let column = |name: &str| cast(people.column_by_name(name).unwrap(), &DataType::Utf8View).unwrap();
        let mut conditions = vec![AtomCondition::Equality];
        let mut atoms = vec![AtomColumn::Codes(codes(&column(entry)).into())];
        let (mut names, mut keys): (Vec<&str>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
        let mut numbered = Vec::new();
        for (number, clause) in clauses.iter().enumerate() {
            let mut numbers = Vec::new();
            for (name, test) in clause {
                let key = names.iter().position(|known| known == name).unwrap_or_else(|| {
                    names.push(name);
                    keys.push(column(name));
                    keys.len() - 1
                });
                let atom = AtomCondition::Similarity { key, condition: *test };
                numbers.push(conditions.iter().position(|known| *known == atom).unwrap_or_else(|| {
                    conditions.push(atom);
                    atoms.push(AtomColumn::None);
                    conditions.len() - 1
                }));
            }
            numbered.push((number, numbers));
        }
        // no atom but the equality is offered as an entry
        let whole = numbered.iter().map(|(_, atoms)| [&[0], atoms.as_slice()].concat()).collect();
        let source = RuleSource::new(conditions, whole);
        let side = SideColumns { rows: people.num_rows(), atoms, keys };
        let cancel = Cancel::default();
        let context = BuildContext { self_join: true, ..BuildContext::new(2, &cancel, &|_| Ok(())) };
        Self { index: RuleIndex::try_new(source, side, &Engine::Cpu, &context).unwrap(), clauses: numbered }
    }

    fn estimates(&self) -> &[AtomEstimate] {
        &self.index.plan().groups[0].estimates
    }

    /// Milliseconds and pairs of a self-join verified by `tree`, the best of `runs`.
    fn run(&mut self, tree: &ExecutionTree, runs: usize) -> (f64, usize) {
        replace_tree(&mut self.index, 0, tree);
        let (cancel, mut best, mut found) = (Cancel::default(), f64::INFINITY, 0);
        for _ in 0..runs {
            let mut cursor = Cursor { next: 0, end: self.index.len(None) };
            let limit = Limit { pairs: usize::MAX, work: usize::MAX };
            let mut pairs = Pairs::default();
            let mut tally = RuleCounters::new(self.estimates().len(), self.clauses.len());
            let run = Run { conditions: &NoConditions, cancel: &cancel };
            let start = Instant::now();
            self.index.probe(None, &mut cursor, limit, &run, &mut pairs, &mut tally).unwrap();
            best = best.min(1e3 * start.elapsed().as_secs_f64());
            found = pairs.len();
        }
        (best, found)
    }
}

fn permutations<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in 0..items.len() {
        let mut rest = items.to_vec();
        let item = rest.remove(first);
        all.extend(permutations(&rest).into_iter().map(|mut tail| {
            tail.insert(0, item.clone());
            tail
        }));
    }
    all
}

/// Every order of clauses with every order of the atoms of each.
fn all_orders(clauses: &[(usize, Vec<usize>)]) -> Vec<Vec<(usize, Vec<usize>)>> {
    let mut orders = vec![Vec::new()];
    for (number, atoms) in clauses {
        let inner = permutations(atoms);
        orders = orders
            .into_iter()
            .flat_map(|order: Vec<(usize, Vec<usize>)>| {
                inner.iter().map(move |atoms| {
                    let mut order = order.clone();
                    order.push((*number, atoms.clone()));
                    order
                })
            })
            .collect();
    }
    orders.into_iter().flat_map(|order| permutations(&order)).collect()
}

fn shuffled(clauses: &[(usize, Vec<usize>)], seed: u64) -> Vec<(usize, Vec<usize>)> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut order = clauses.to_vec();
    order.iter_mut().for_each(|(_, atoms)| atoms.shuffle(&mut rng));
    order.shuffle(&mut rng);
    order
}

#[tokio::main]
async fn main() -> Result<()> {
    let Ok(path) = std::env::var("PEOPLE") else {
        println!("PEOPLE names no Parquet file of generated people; nothing is measured");
        return Ok(());
    };
    let frame = SessionContext::new().read_parquet(path, ParquetReadOptions::default()).await?;
    let batches = frame.collect().await?;
    let people = concat_batches(&batches[0].schema(), &batches)?;
    println!(
        "entry,pairs,chosen,best,worst,as_written,cheapest_first,most_selective_first,best_of_random,mean_of_random"
    );
    for (entry, clauses) in rule_sets() {
        let mut measured = Measured::new(&people, entry, &clauses);
        let numbered = measured.clauses.clone();
        let estimates = measured.estimates().to_vec();
        let by = |what: fn(&AtomEstimate) -> f64| {
            let mut order = numbered.clone();
            order.iter_mut().for_each(|(_, atoms)| {
                atoms.sort_by(|&a, &b| what(&estimates[a]).total_cmp(&what(&estimates[b])));
            });
            order.sort_by(|(_, a), (_, b)| what(&estimates[a[0]]).total_cmp(&what(&estimates[b[0]])));
            ExecutionTree::in_order(&order)
        };
        let chosen_tree = ExecutionTree::of(&numbered, &estimates);
        let (chosen, pairs) = measured.run(&chosen_tree, RUNS);
        let (mut best, mut worst) = (chosen, chosen);
        for order in all_orders(&numbered) {
            let (time, found) = measured.run(&ExecutionTree::in_order(&order), RUNS);
            assert_eq!(found, pairs, "an order changes the result");
            (best, worst) = (best.min(time), worst.max(time));
        }
        let written = measured.run(&ExecutionTree::in_order(&numbered), RUNS).0;
        let cheapest = measured.run(&by(|e| e.cost), RUNS).0;
        let selective = measured.run(&by(|e| e.passes), RUNS).0;
        let random = (0..20).map(|seed| measured.run(&ExecutionTree::in_order(&shuffled(&numbered, seed)), RUNS).0);
        let random: Vec<f64> = random.collect();
        let (luckiest, random) =
            (random.iter().copied().fold(f64::INFINITY, f64::min), random.iter().sum::<f64>() / 20.0);
        println!(
            "{entry},{pairs},{chosen:.1},{best:.1},{worst:.1},{written:.1},{cheapest:.1},{selective:.1},{luckiest:.1},{random:.1}"
        );
    }
    Ok(())
}
