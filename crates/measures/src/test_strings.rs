//! Pairs of strings for the tests of edit measures, and the measures as their definitions have them.

use std::collections::HashMap;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Random pairs over small alphabets, lengths around the limits of words and blocks, empty and non-ASCII ones.
pub(super) fn pairs() -> Vec<(String, String)> {
    let mut rng = StdRng::seed_from_u64(3);
    let mut made = vec![(String::new(), String::new()), ("".into(), "a".into()), ("é".into(), "e".into())];
    let alphabets: [&[char]; 3] = [&['a', 'b'], &['a', 'b', 'c', 'd', 'e', ' '], &['ä', 'ö', 'a', '日', '本', '😀']];
    for length in [1, 2, 3, 5, 8, 13, 31, 62, 63, 64, 65, 66, 100, 127, 128, 129, 200] {
        for case in 0..24 {
            let alphabet = alphabets[case % 3];
            let mut random = |n: usize| (0..n).map(|_| alphabet[rng.random_range(0..alphabet.len())]).collect();
            let a: Vec<char> = random(length);
            let b: Vec<char> = if case % 2 == 0 { random(length + case / 8) } else { edited(&a, &mut rng) };
            made.push((a.into_iter().collect(), b.into_iter().collect()));
        }
    }
    made
}

fn edited(text: &[char], rng: &mut StdRng) -> Vec<char> {
    let mut text = text.to_vec();
    for _ in 0..rng.random_range(0..6) {
        let at = rng.random_range(0..=text.len());
        match rng.random_range(0..4) {
            0 => text.insert(at, 'x'),
            1 if at < text.len() => drop(text.remove(at)),
            2 if at < text.len() => text[at] = 'y',
            _ if at > 1 => text.swap(at - 1, at - 2),
            _ => {}
        }
    }
    text
}

fn symbols(a: &str, b: &str) -> (Vec<char>, Vec<char>) {
    (a.chars().collect(), b.chars().collect())
}

pub(super) fn plain_levenshtein(a: &str, b: &str) -> usize {
    matrix(a, b, false)
}

pub(super) fn plain_osa(a: &str, b: &str) -> usize {
    matrix(a, b, true)
}

fn matrix(a: &str, b: &str, swaps: bool) -> usize {
    let (a, b) = symbols(a, b);
    let mut d = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            d[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let plain =
                    (d[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1])).min(d[i - 1][j] + 1).min(d[i][j - 1] + 1);
                match swaps && i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    true => plain.min(d[i - 2][j - 2] + 1),
                    false => plain,
                }
            };
        }
    }
    d[a.len()][b.len()]
}

pub(super) fn plain_damerau_levenshtein(a: &str, b: &str) -> usize {
    let (a, b) = symbols(a, b);
    let far = a.len() + b.len();
    let mut d = vec![vec![far; b.len() + 2]; a.len() + 2];
    for i in 0..=a.len() {
        d[i + 1][1] = i;
    }
    for j in 0..=b.len() {
        d[1][j + 1] = j;
    }
    let mut rows: HashMap<char, usize> = HashMap::new();
    for i in 1..=a.len() {
        let mut column = 0;
        for j in 1..=b.len() {
            let (k, l) = (rows.get(&b[j - 1]).copied().unwrap_or(0), column);
            let cost = usize::from(a[i - 1] != b[j - 1]);
            if cost == 0 {
                column = j;
            }
            let plain = (d[i][j] + cost).min(d[i + 1][j] + 1).min(d[i][j + 1] + 1);
            d[i + 1][j + 1] = plain.min(d[k][l] + (i - k - 1) + 1 + (j - l - 1));
        }
        rows.insert(a[i - 1], i);
    }
    d[a.len() + 1][b.len() + 1]
}

pub(super) fn plain_jaro(a: &str, b: &str) -> f64 {
    let (a, b) = symbols(a, b);
    if a.is_empty() && b.is_empty() {
        return 1.0;
    }
    let reach = (a.len().max(b.len()) / 2).saturating_sub(1);
    let mut taken = vec![false; b.len()];
    let mut of_a = Vec::new();
    for (i, x) in a.iter().enumerate() {
        let near = i.saturating_sub(reach)..b.len().min(i + reach + 1);
        if let Some(j) = near.into_iter().find(|&j| !taken[j] && b[j] == *x) {
            taken[j] = true;
            of_a.push(*x);
        }
    }
    if of_a.is_empty() {
        return 0.0;
    }
    let of_b: Vec<char> = b.iter().zip(&taken).filter(|(_, taken)| **taken).map(|(c, _)| *c).collect();
    let misplaced = of_a.iter().zip(&of_b).filter(|(x, y)| x != y).count();
    let m = of_a.len() as f64;
    (m / a.len() as f64 + m / b.len() as f64 + (of_a.len() - misplaced / 2) as f64 / m) / 3.0
}
