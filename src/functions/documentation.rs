//! What SHOW FUNCTIONS says about each function.

use std::collections::HashMap;
use std::sync::LazyLock;

use datafusion::logical_expr::{DocSection, Documentation};
use similarity_measures::{EditMeasure, FunctionDoc, SetMeasure};

/// The documentation of one of our functions.
pub(super) fn of(name: &str) -> Option<&'static Documentation> {
    static BY_NAME: LazyLock<HashMap<&str, Documentation>> =
        LazyLock::new(|| entries().map(|doc| (doc.name(), build(doc))).collect());
    BY_NAME.get(name)
}

fn build(doc: &FunctionDoc) -> Documentation {
    let (call, result) = doc.example;
    let mut documentation = Documentation::builder(SECTION, doc.description, doc.syntax)
        .with_sql_example(format!("```sql\n> SELECT {call};\n{result}\n```"));
    for argument in doc.arguments() {
        documentation = documentation.with_argument(argument, describe(argument));
    }
    documentation.build()
}

/// Every function of ours, edit and set measures by their descriptors.
fn entries() -> impl Iterator<Item = &'static FunctionDoc> {
    let edits = EditMeasure::ALL.iter().filter_map(|measure| measure.descriptor().doc.as_ref());
    let sets = SetMeasure::ALL.iter().map(|measure| &measure.descriptor().doc);
    ENTRIES.iter().chain(edits).chain(sets)
}

const SECTION: DocSection = DocSection {
    include: true,
    label: "Similarity Functions",
    description: Some("Similarity of strings, sets and vectors"),
};

fn describe(argument: &str) -> &'static str {
    match argument {
        "a" | "b" => "One of the two values compared.",
        "s" => "A string.",
        "q" => "The length of a gram in characters, a constant between 1 and 1000.",
        "k" => "The greatest distance of interest, a constant of at least 0.",
        "p" => "The order of the distance, at least 1.",
        "pad" => "One character; q - 1 copies of it are put on each side.",
        "window" => "The size of the window, a constant of at least 1.",
        "s1" | "s2" => "The similarity of one attribute. NULL, NaN and infinity count as missing.",
        "t1" | "t2" => "The similarity from which on the attribute counts, a constant of at most 1.",
        "w1" | "w2" => "The weight of the attribute, a constant of at least 0.",
        ".." => "Further arguments of the same kinds.",
        "c1" | "c2" => "A condition. NULL does not hold.",
        "condition" => "A condition over two rows.",
        "recall" => "The share of pairs to find, a constant above 0 and at most 1.",
        "tokens" => "A list of strings; minhash takes whole numbers, too.",
        "vector" => "A list of numbers.",
        "length" => "How many places the signature has, a constant from 1 to 65536.",
        "bits" => "How many bits the signature has, a constant multiple of 64.",
        "width" => "The width of a slot or of the kernel, a constant above 0.",
        "seed" => "A constant that the random choices follow from; 1 if absent.",
        "mode" => {
            "'zero' or 'skip': a missing similarity counts as 0, or its weight leaves the average; zero if absent."
        }
        "form" => "'NFC', 'NFD', 'NFKC' or 'NFKD'; NFC if absent.",
        "max_length" => "The greatest length of the code; 255 if absent.",
        other => {
            let of_sets = SetMeasure::ALL.iter().flat_map(|measure| measure.descriptor().parameters);
            let of_edits = EditMeasure::ALL.iter().flat_map(|measure| measure.descriptor().parameters);
            of_sets
                .chain(of_edits)
                .find(|parameter| parameter.name == other)
                .map_or("", |parameter| parameter.description)
        }
    }
}

const fn entry(syntax: &'static str, description: &'static str, example: (&'static str, &'static str)) -> FunctionDoc {
    FunctionDoc { syntax, description, example }
}

const ENTRIES: [FunctionDoc; 32] = [
    entry(
        "levenshtein_less_equal(a, b, k)",
        "The Levenshtein distance in characters, or k + 1 where it exceeds k; faster than levenshtein for a small k.",
        ("levenshtein_less_equal('kitten', 'sitting', 2)", "3"),
    ),
    entry(
        "word_tokens(s)",
        "The words of a string in lower case, split at whatever is neither letter nor digit.",
        ("word_tokens('Miller & Sons')", "[miller, sons]"),
    ),
    entry(
        "qgrams(s, q [, pad])",
        "The substrings of q characters. Without pad a shorter string is its own gram; an empty one has none.",
        ("qgrams('abc', 2, '#')", "[#a, ab, bc, c#]"),
    ),
    entry(
        "multiset_qgrams(s, q [, pad])",
        "The q-grams of a string; from its second occurrence on, a gram has its number behind it, so that each counts.",
        ("multiset_qgrams('banana', 2)", "[ba, an, na, an2, na2]"),
    ),
    entry(
        "word_similarity(a, b)",
        "pg_trgm: the greatest similarity of the trigrams of a with a continuous extent of the ordered trigrams of b.",
        ("word_similarity('word', 'two words')", "0.8"),
    ),
    entry(
        "strict_word_similarity(a, b)",
        "pg_trgm: as word_similarity, with extents that begin and end at words of b.",
        ("strict_word_similarity('word', 'two words')", "0.5714286"),
    ),
    entry(
        "show_trgm(s)",
        "pg_trgm: the distinct trigrams of the words of a string.",
        ("show_trgm('ab')", "[  a,  ab, ab ]"),
    ),
    entry("soundex(s)", "The Soundex code, as PostgreSQL's fuzzystrmatch.", ("soundex('Anne')", "A500")),
    entry(
        "difference(a, b)",
        "In how many of its four places the Soundex code of two strings agrees, as PostgreSQL's fuzzystrmatch.",
        ("difference('Anne', 'Andrew')", "2"),
    ),
    entry(
        "metaphone(s [, max_length])",
        "The Metaphone code, as PostgreSQL's fuzzystrmatch.",
        ("metaphone('GUMBO', 4)", "KM"),
    ),
    entry(
        "dmetaphone(s)",
        "The primary Double Metaphone code, as PostgreSQL's fuzzystrmatch.",
        ("dmetaphone('gumbo')", "KMP"),
    ),
    entry(
        "dmetaphone_alt(s)",
        "The alternate Double Metaphone code, as PostgreSQL's fuzzystrmatch.",
        ("dmetaphone_alt('gumbo')", "KMP"),
    ),
    entry(
        "daitch_mokotoff(s)",
        "The Daitch-Mokotoff codes, several where a name has several sounds, as PostgreSQL 16's fuzzystrmatch. NULL without a letter.",
        ("daitch_mokotoff('Peters')", "[739400, 734000]"),
    ),
    entry(
        "token_sort_ratio(a, b)",
        "RapidFuzz: from 0 to 100, the likeness of two strings by insertions and deletions once their words are sorted.",
        ("token_sort_ratio('wuzzy fuzzy', 'fuzzy wuzzy')", "100.0"),
    ),
    entry(
        "neighbors(a, b, window)",
        "Whether two whole numbers, such as the ranks of two rows in an order, are less than window apart.",
        ("neighbors(3, 5, 3)", "true"),
    ),
    entry(
        "weighted_similarity(s1, t1, w1, s2, t2, w2, .. [, mode])",
        "The average of similarities by weight. A similarity below its threshold counts as 0.",
        ("weighted_similarity(0.75, 0.5, 60, 0.25, 0.5, 40)", "0.45"),
    ),
    entry(
        "match_count(c1, c2, ..)",
        "How many of some conditions hold. With a weight after each condition, the sum of the weights of those that hold.",
        ("match_count(1 = 1, 'a' = 'b', 2 < 3)", "2"),
    ),
    entry(
        "with_recall(condition, recall)",
        "The condition. Around the condition of a join, it lets the join miss pairs, but find at least this share of them.",
        ("with_recall(1 = 1, 0.95)", "true"),
    ),
    entry(
        "unaccent(s)",
        "The string without accents, letters such as ß and ø spelled out, typographic quotes, dashes and fractions in ASCII.",
        ("unaccent('Hôtel Straße')", "Hotel Strasse"),
    ),
    entry("normalize(s [, form])", "The string in a Unicode normal form.", ("normalize('ﬁn', 'NFKC')", "fin")),
    entry(
        "casefold(s)",
        "The string folded for comparison without case.",
        ("casefold('STRASSE') = casefold('Straße')", "true"),
    ),
    entry(
        "l1_distance(a, b)",
        "The sum of the absolute differences of two vectors. NULL where an element is NULL, NaN or infinite.",
        ("l1_distance([0, 0], [3, 4])", "7.0"),
    ),
    entry(
        "l2_distance(a, b)",
        "The Euclidean distance of two vectors. NULL where an element is NULL, NaN or infinite.",
        ("l2_distance([0, 0], [3, 4])", "5.0"),
    ),
    entry(
        "linf_distance(a, b)",
        "The greatest absolute difference of two vectors. NULL where an element is NULL, NaN or infinite.",
        ("linf_distance([0, 0], [3, 4])", "4.0"),
    ),
    entry(
        "lp_distance(a, b, p)",
        "The distance of order p of two vectors. NULL where an element is NULL, NaN or infinite.",
        ("lp_distance([0, 0], [3, 4], 2)", "5.0"),
    ),
    entry(
        "cosine_similarity(a, b)",
        "The cosine of the angle between two vectors. NULL for a vector of length zero and where an element is NULL, NaN or infinite.",
        ("cosine_similarity([1, 0], [1, 0])", "1.0"),
    ),
    entry(
        "minhash(tokens, length [, seed])",
        "A signature of so many numbers. Two agree in a place with the probability jaccard(a, b). NULL for the empty set.",
        ("minhash(['a', 'b'], 4) = minhash(['b', 'a', 'b'], 4)", "true"),
    ),
    entry(
        "minhash_similarity(a, b)",
        "The share of places in which two signatures agree, an estimate of the similarity that they were made for.",
        ("minhash_similarity(minhash(['a', 'b'], 64), minhash(['b', 'a'], 64))", "1.0"),
    ),
    entry(
        "simhash(tokens [, seed])",
        "64 bits of a set. With a vector and a number of bits, words of 64 bits: the smaller the angle, the fewer differ.",
        ("bit_hamming(simhash(['a', 'b']), simhash(['b', 'a']))", "0"),
    ),
    entry(
        "e2lsh(vector, length, width [, seed])",
        "The slots of a vector on random lines, which are cut into slots of one width. Near vectors share many slots.",
        ("minhash_similarity(e2lsh([1.0, 2.0], 8, 4), e2lsh([1.0, 2.0], 8, 4))", "1.0"),
    ),
    entry(
        "random_binning(vector, length, width [, seed])",
        "The cells of a vector in random grids. Two vectors share a cell with probability exp(-l1_distance / width).",
        ("minhash_similarity(random_binning([1.0], 8, 4), random_binning([1.0], 8, 4))", "1.0"),
    ),
    entry(
        "bit_hamming(a, b)",
        "The number of bits in which two whole numbers of 64 bits, or two lists of them of one length, differ.",
        ("bit_hamming(5, 6)", "2"),
    ),
];
