//! Links between ids, for components.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

/// The ends of a link.
pub type Edge = (Option<i64>, Option<i64>);

/// A graph of some kind, its ids from -50 on, with NULLs, links of an id with itself, and reversed ones.
pub fn random_edges(rng: &mut StdRng) -> Vec<Edge> {
    let count: i64 = rng.random_range(1..60);
    let id = |rng: &mut StdRng| rng.random_range(0..count) - 50;
    let mut edges: Vec<Edge> = match rng.random_range(0..4) {
        0 => (1..count).map(|at| (Some(at - 50), Some(at - 51))).collect(),
        1 => (1..count).map(|at| (Some(at - 50), Some(-50))).collect(),
        2 => (0..count.min(9)).flat_map(|a| (0..a).map(move |b| (Some(a - 50), Some(b - 50)))).collect(),
        _ => (0..rng.random_range(0..count)).map(|_| (Some(id(rng)), Some(id(rng)))).collect(),
    };
    for _ in 0..rng.random_range(0..5) {
        edges.extend([(Some(id(rng)), None), (None, Some(id(rng)))]);
        let alone = id(rng);
        edges.push((Some(alone), Some(alone)));
    }
    edges.push((None, None));
    let reversed: Vec<Edge> = edges.iter().map(|&(left, right)| (right, left)).collect();
    edges.extend(reversed.into_iter().filter(|_| rng.random_bool(0.2)));
    edges.shuffle(rng);
    edges
}
