//! One pair of strings or sets, by measure and length: what a scalar function costs per row.

use std::hint::black_box;

use divan::Bencher;
use similarity_measures::{
    EditMeasure, damerau_levenshtein, double_metaphone, hamming, jaro, jaro_winkler, levenshtein,
    levenshtein_similarity, metaphone, osa, qgrams, soundex, trigram, word_tokens,
};

fn main() {
    divan::main();
}

const LENGTHS: [usize; 4] = [8, 24, 64, 300];

/// Two strings of `length` characters with an edit in eight.
fn pair(length: usize) -> (String, String) {
    let left: String = "similarity joins in sql ".chars().cycle().take(length).collect();
    let right = left.char_indices().map(|(i, c)| if i % 8 == 3 { 'x' } else { c }).collect();
    (left, right)
}

macro_rules! over_pairs {
    ($($name:ident: $measure:expr),+ $(,)?) => {
        $(#[divan::bench(args = LENGTHS)]
        fn $name(bencher: Bencher, length: usize) {
            let (left, right) = pair(length);
            bencher.bench(|| $measure(black_box(left.as_str()), black_box(right.as_str())));
        })+
    };
}

over_pairs! {
    levenshtein_distance: levenshtein::levenshtein,
    levenshtein_within_2: |a, b| levenshtein::levenshtein_within(a, b, 2),
    levenshtein_similarity: levenshtein_similarity::levenshtein_similarity,
    osa_distance: osa::osa_distance,
    damerau_levenshtein_distance: damerau_levenshtein::damerau_levenshtein,
    hamming_distance: hamming::hamming,
    jaro_similarity: jaro::jaro_similarity,
    jaro_winkler_similarity: jaro_winkler::jaro_winkler_similarity,
    edit_score: |a, b| EditMeasure::LEVENSHTEIN_SIMILARITY.score(a, b),
    word_similarity: trigram::word_similarity,
    strict_word_similarity: trigram::strict_word_similarity,
    soundex_code: |a, _| soundex::soundex(a),
    metaphone_code: |a, _| metaphone::metaphone(a, 255),
    double_metaphone_code: |a, _| double_metaphone::double_metaphone(a),
}

#[divan::bench(args = LENGTHS)]
fn tokens_of_words(bencher: Bencher, length: usize) {
    let (text, _) = pair(length);
    let mut scratch = String::new();
    bencher.bench_local(|| {
        let mut tokens = 0;
        word_tokens::word_tokens(black_box(&text), &mut scratch, |token| tokens += token.len());
        tokens
    });
}

#[divan::bench(args = LENGTHS)]
fn tokens_of_3_grams(bencher: Bencher, length: usize) {
    let (text, _) = pair(length);
    let mut scratch = String::new();
    bencher.bench_local(|| {
        let mut tokens = 0;
        qgrams::qgrams(black_box(&text), 3, Some('#'), &mut scratch, |token| tokens += token.len());
        tokens
    });
}
