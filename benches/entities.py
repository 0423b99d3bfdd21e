#!/usr/bin/env python3
"""Duplicate detection to entities, beside Splink and goldenmatch: quality, seconds and memory.

    pip install numpy scipy pyarrow duckdb splink goldenmatch
    cargo build --release
    python3 benches/entities.py FOLDER target/release/similarity-cli [--sets ..] [--tools ..] [--runs 3]

FOLDER keeps what is made: people, pairs and clusters. Two data sets:

- fake_20000, 20,000 people of Splink's demos. SIMILARITY_DATA is the folder that has fake_20000, with a.parquet and
  truth.parquet.
- people, a million generated rows of benches/people/generate.py.

Entities are halved by a hash of their smallest id, as in benches/quality.py. A pair belongs to the half of its smaller
id. Weights and thresholds were chosen on the first half. The second half is what counts.

- `--thresholds 0 1 2` runs each tool with each threshold, for pairs and clusters alike. It shows how they were chosen.
- `--fit` prints the weights of evidence that the first half gives. It shows where ours come from.

Seconds start at the Parquet file. Python's imports are left out, and so is writing the results. Memory is the most that
the process had. Each run is a process of its own, and tools take turns.
"""

import argparse
import hashlib
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import pyarrow
import pyarrow.parquet

HERE = pathlib.Path(__file__).resolve().parent
DATA = pathlib.Path(os.environ.get("SIMILARITY_DATA", HERE.parent.parent / "shared" / "data"))
# ours-blocks is ours over the blocks of the peers, which `people` has anyway
TOOLS = ["ours", "ours-blocks", "splink", "goldenmatch"]

# ---- data ----------------------------------------------------------------------------------------------------------


def source(name, folder):
    return DATA / "fake_20000" / "a.parquet" if name == "fake_20000" else folder / "people.parquet"


def entities(name, folder):
    """The entity of each row, by row number, which is the id: the smallest id of the same person."""
    if name == "people":
        person = pyarrow.parquet.read_table(source(name, folder), columns=["person"])["person"].to_numpy()
    else:
        truth = pyarrow.parquet.read_table(DATA / name / "truth.parquet")
        person = numpy.arange(pyarrow.parquet.read_metadata(source(name, folder)).num_rows)
        # the truth has every pair, so the smallest partner is the smallest id of the person
        numpy.minimum.at(person, truth["id_r"].to_numpy(), truth["id_l"].to_numpy())
    first = numpy.full(person.max() + 1, len(person))
    numpy.minimum.at(first, person, numpy.arange(len(person)))
    return first[person]


def make(name, folder):
    """People are generated and the truth is written, where they are not there yet. Returns entities and halves."""
    if not source(name, folder).exists():
        subprocess.run([sys.executable, HERE / "people" / "generate.py", source(name, folder), "1000000"], check=True)
    entity = entities(name, folder)
    ids = numpy.arange(len(entity))
    pyarrow.parquet.write_table(pyarrow.table({"id": ids, "entity": entity}), folder / f"{name}_entities.parquet")
    known = numpy.unique(entity)
    half = numpy.array([ord(hashlib.md5(str(e).encode()).hexdigest()[0]) % 2 for e in known])
    return entity, half[numpy.searchsorted(known, entity)]


# ---- measures ------------------------------------------------------------------------------------------------------


def later(groups):
    """For each row, how many rows of its group have a larger id."""
    order = numpy.argsort(groups, kind="stable")
    ordered = groups[order]
    starts = numpy.flatnonzero(numpy.r_[True, ordered[1:] != ordered[:-1]])
    ends = numpy.repeat(numpy.r_[starts[1:], len(groups)], numpy.diff(numpy.r_[starts, len(groups)]))
    rows = numpy.empty(len(groups), dtype=numpy.int64)
    rows[order] = ends - 1 - numpy.arange(len(groups))
    return rows


def ratios(true_found, found, true):
    precision, recall = true_found / max(found, 1), true_found / max(true, 1)
    return [100 * m for m in (precision, recall, 2 * precision * recall / max(precision + recall, 1e-9))]


def quality(entity, half, left, right, cluster):
    """Precision, recall and F1 in percent: {half: (of pairs, of clusters pair by pair)}."""
    smaller, right_too = numpy.minimum(left, right), entity[left] == entity[right]
    true, found = later(entity), later(cluster)
    both = later(numpy.unique(numpy.stack([cluster, entity], 1), axis=0, return_inverse=True)[1].ravel())
    measures = {}
    for which in (0, 1):
        rows, pairs = half == which, half[smaller] == which
        of_pairs = ratios((pairs & right_too).sum(), pairs.sum(), true[rows].sum())
        measures[which] = of_pairs, ratios(both[rows].sum(), found[rows].sum(), true[rows].sum())
    return measures


# ---- blocks --------------------------------------------------------------------------------------------------------

# People: the same blocks for all tools. A block is rows that are equal in all of its columns.
BLOCKS = [
    ["phone"],
    ["email"],
    ["postcode", "birth_year"],
    ["postcode", "house_number"],
    ["postcode", "street"],
    ["street", "house_number"],
    ["birth_date", "house_number"],
    ["birth_date", "street"],
    ["employer", "birth_year"],
    ["employer", "postcode"],
    ["birth_year", "house_number", "occupation"],
]
# fake_20000: blocks of the peers. The clauses of ours are similarities. (0, 4) is the first four letters.
YEAR, MONTH, DAY, YEAR_MONTH, MONTH_DAY = (0, 4), (5, 7), (8, 10), (0, 7), (5, 10)
FAKE_BLOCKS = [
    {"dob": None},
    {"email": None},
    {"first_name": None, "surname": None},
    {"surname": None, "city": None},
    {"first_name": None, "city": None},
    {"dob": YEAR_MONTH, "first_name": (0, 2)},
    {"dob": YEAR_MONTH, "surname": (0, 2)},
    {"dob": MONTH_DAY, "first_name": (0, 1)},
    {"dob": MONTH_DAY, "surname": (0, 1)},
    {"dob": MONTH_DAY, "city": None},
    {"dob": YEAR_MONTH, "city": None},
    {"dob": YEAR, "city": None},
    {"dob": YEAR, "first_name": (0, 2)},
    {"dob": YEAR, "surname": (0, 2)},
    {"surname": None, "dob": MONTH},
    {"surname": None, "dob": DAY},
    {"surname": None, "dob": YEAR},
    {"first_name": None, "dob": MONTH},
    {"first_name": None, "dob": DAY},
    {"first_name": None, "dob": YEAR},
    {"email": (0, 5)},
    {"domain": None},
]

EXCHANGES = [("first_name", "surname"), ("surname", "first_name")]


def block_conditions(name, left, right):
    """Blocks as conditions over two rows, in SQL."""
    if name == "people":
        return [" AND ".join(f"{left}.{column} = {right}.{column}" for column in block) for block in BLOCKS]

    def cut(row, column, part):
        return f"substr({row}.{column}, {part[0] + 1}, {part[1] - part[0]})" if part else f"{row}.{column}"

    blocks = [" AND ".join(f"{cut(left, *p)} = {cut(right, *p)}" for p in block.items()) for block in FAKE_BLOCKS]
    same_year = f"{cut(left, 'dob', YEAR)} = {cut(right, 'dob', YEAR)}"
    exchanged = [f"{left}.{x} = {right}.{y}" for x, y in EXCHANGES]
    return [*blocks, " AND ".join(exchanged), *[f"{condition} AND {same_year}" for condition in exchanged]]


# ---- ours ----------------------------------------------------------------------------------------------------------

# A score is the evidence for one person, in log odds. Each column adds the weight of its first condition that holds.
# A missing value adds nothing. {c} is the column, {o} the other name.
NAME = [
    ("a.{c} = b.{c} AND a.{c}_rows <= 60", [3.8, 4.3]),
    ("a.{c} = b.{c}", [3.1, 3.0]),
    ("levenshtein(a.{c}, b.{c}) <= 1 OR jaro_winkler_similarity(a.{c}, b.{c}) >= 0.9", [2.5, 2.8]),
    ("levenshtein(a.{c}, b.{c}) <= 2", [1.3, 1.6]),
    (
        "levenshtein(a.{c}, b.{o}) <= 1 OR levenshtein(a.{o}, b.{c}) <= 1 "
        "OR jaro_winkler_similarity(a.{c}, b.{o}) >= 0.9 OR jaro_winkler_similarity(a.{o}, b.{c}) >= 0.9",
        [1.2, 1.0],
    ),
    ("jaro_winkler_similarity(a.{c}, b.{c}) >= 0.7", [0.1, 0.6]),
    ("jaro_winkler_similarity(a.{c}, b.{c}) >= 0.5", [-2.0, -2.5]),
    ("a.{c} <> b.{c}", [-4.0, -3.7]),
]


def name_evidence(column, other, which):
    return [(condition.format(c=column, o=other), weights[which]) for condition, weights in NAME]


def alike(column, edits, equal, near, other):
    """Evidence of a column of people: equal, a few edits apart, or another value."""
    distance = [(f"levenshtein(a.{column}, b.{column}) <= {edits}", near)] if edits else []
    return [(f"a.{column} = b.{column}", equal), *distance, (f"a.{column} <> b.{column}", other)]


DAYS = "abs(a.day - b.day)"
FIRST = "jaro_winkler_similarity(a.first_name, b.first_name) >= 0.75"
LAST = "jaro_winkler_similarity(a.surname, b.surname) >= 0.75"
EXCHANGED = (
    "jaro_winkler_similarity(a.first_name, b.surname) >= 0.8 OR jaro_winkler_similarity(a.surname, b.first_name) >= 0.8"
)
PEOPLE = ["first_name", "middle_name", "surname", "birth_year", "birth_date", "street", "house_number", "city"]
PEOPLE += ["postcode", "phone", "email", "occupation", "employer"]
OURS = {
    "fake_20000": {
        "columns": "*, CAST(CAST(dob AS DATE) AS INT) AS day, split_part(email, '@', 2) AS domain, "
        + ", ".join(f"count(*) OVER (PARTITION BY {c}) AS {c}_rows" for c in ("first_name", "surname", "city")),
        # dates of one person differ by ten years, a year, a month and two days at most
        "clauses": [
            f"levenshtein(a.dob, b.dob) <= 1 AND (a.city = b.city OR {FIRST} OR {LAST} OR {EXCHANGED})",
            "levenshtein(a.email, b.email) <= 4",
            f"a.city = b.city AND {DAYS} <= 3720 AND ({FIRST} OR {LAST} OR {EXCHANGED})",
            f"{FIRST} AND {LAST}",
        ],
        "start": -3.6,
        "evidence": {
            "first_name": name_evidence("first_name", "surname", 0),
            "surname": name_evidence("surname", "first_name", 1),
            "dob": [
                ("a.dob = b.dob", 4.9),
                (f"{DAYS} <= 2", 2.0),
                (
                    f"levenshtein(a.dob, b.dob) <= 1 OR {DAYS} <= 36 "
                    f"OR abs({DAYS} - 365) <= 36 OR abs({DAYS} - 3652) <= 38",
                    0.4,
                ),
                (f"abs({DAYS} - 3652) <= 404", -2.5),
                ("a.dob <> b.dob", -4.9),
            ],
            "city": [
                ("a.city = b.city AND a.city_rows <= 1000", 3.0),
                ("a.city = b.city", 0.3),
                ("levenshtein(a.city, b.city) <= 2 OR jaro_winkler_similarity(a.city, b.city) >= 0.85", 2.1),
                ("jaro_winkler_similarity(a.city, b.city) >= 0.7", 0.7),
                ("a.city <> b.city", -4.2),
            ],
            "email": [
                ("a.email = b.email", 9.1),
                ("levenshtein(a.email, b.email) <= 2", 7.1),
                ("levenshtein(a.email, b.email) <= 4", 4.4),
                ("levenshtein(a.email, b.email) <= 6", 1.1),
                ("jaro_winkler_similarity(a.email, b.email) >= 0.75", -3.2),
                ("a.email <> b.email", -6.1),
            ],
        },
        # clusters gain from a higher threshold than pairs; no entity of the first half has more than six rows
        "thresholds": (0.0, 0.75),
        "method": ", 'split', 6",
    },
    "people": {
        "columns": "*",
        "clauses": block_conditions("people", "a", "b"),
        "start": -3.8,
        "evidence": {
            "first_name": alike("first_name", 3, 1.1, 0.5, -2.0),
            "surname": alike("surname", 3, 1.2, 0.8, -1.9),
            "birth_date": alike("birth_date", 3, 2.4, -0.5, -1.4),
            "phone": alike("phone", 3, 3.0, 0.9, -2.2),
            "email": alike("email", 4, 1.9, 1.0, -2.5),
            "street": alike("street", 3, 2.6, 1.2, -2.4),
            "employer": alike("employer", 3, 2.6, 1.2, -2.2),
            "postcode": alike("postcode", 0, 3.1, 0, -3.5),
            "house_number": alike("house_number", 0, 1.3, 0, -2.7),
            "birth_year": alike("birth_year", 0, 1.1, 0, -2.1),
            "occupation": alike("occupation", 0, 1.6, 0, -2.6),
        },
        # hardly any pair with fewer than four equal columns reaches the threshold, and equality is quick
        "equal": (PEOPLE, 4),
        "thresholds": (-1.0, -1.0),
        "method": "",
    },
}


def case(conditions, values):
    whens = " ".join(f"WHEN {condition} THEN {value}" for condition, value in zip(conditions, values))
    return f"CASE {whens} ELSE 0 END"


def our_tables(name, folder):
    return f"CREATE TABLE people AS SELECT {OURS[name]['columns']} FROM '{source(name, folder)}'"


def our_candidates(name, clauses):
    clauses = "\n  OR ".join(f"({clause})" for clause in clauses)
    return f"FROM people a SIMILARITY JOIN people b ON a.id < b.id AND ({clauses})"


def our_score(name):
    terms = [case(*zip(*levels)) for levels in OURS[name]["evidence"].values()]
    return "\n  + ".join([str(OURS[name]["start"]), *terms])


def our_filter(name, threshold):
    """A score from the threshold on. Before it may stand a number of equal columns, which is quicker to see."""
    filters = [f"{our_score(name)} >= {threshold}"]
    if "equal" in OURS[name]:
        columns, least = OURS[name]["equal"]
        equal = " + ".join(f"CASE WHEN a.{column} = b.{column} THEN 1 ELSE 0 END" for column in columns)
        filters = [f"{equal} >= {least}", *filters]
    return "\n  AND ".join(filters)


def our_script(tool, name, folder, thresholds):
    clauses = OURS[name]["clauses"] if tool == "ours" else block_conditions(name, "a", "b")
    score, known = our_score(name), f"{folder}/{name}_entities.parquet"
    return {
        "load": our_tables(name, folder),
        "link": f"CREATE TABLE pairs AS SELECT a.id AS l, b.id AS r, {score} AS score\n"
        f"{our_candidates(name, clauses)}\n  AND {our_filter(name, thresholds[0])}",
        "cluster": "CREATE TABLE entities AS SELECT * FROM clusters('SELECT l, r, score FROM pairs "
        f"WHERE score >= {thresholds[1]} UNION ALL SELECT id, NULL, NULL FROM people'{OURS[name]['method']})",
        "known": f"CREATE TABLE known AS SELECT * FROM '{known}'",
        "of pairs": "SELECT * FROM evaluate_pairs('pairs', 'SELECT a.id AS l, b.id AS r FROM known a "
        "JOIN known b ON a.entity = b.entity AND a.id < b.id')",
        "of clusters": "SELECT * FROM evaluate_clusters('entities', 'known')",
        "pairs": f"COPY pairs TO '{folder}/{name}_{tool}_pairs.parquet'",
        "clusters": f"COPY (SELECT id, cluster_id FROM entities) TO '{folder}/{name}_{tool}_clusters.parquet'",
    }


def run_script(shell, statements):
    """Runs statements; returns the seconds of each and the memory in MB."""
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(";\n".join(statements) + ";\n")
        file.flush()
        text, memory = process([shell, "-f", file.name])
    seconds = [float(s) for s in re.findall(r"^Elapsed ([0-9.]+) seconds", text, re.M)]
    if len(seconds) != len(statements):
        sys.exit(text)
    return seconds, memory


def ours(shell, tool, name, folder, thresholds):
    script = our_script(tool, name, folder, thresholds)
    seconds, memory = run_script(shell, list(script.values()))
    step = dict(zip(script, seconds))
    evaluate = step["known"] + step["of pairs"] + step["of clusters"]
    return {"link": step["load"] + step["link"], "cluster": step["cluster"], "evaluate": evaluate}, memory


def fit(shell, name, folder, entity, half):
    """Logistic regression of the first half's candidates on their levels: the weights of evidence, to one digit."""
    from scipy.optimize import minimize

    evidence, levels = OURS[name]["evidence"], folder / f"{name}_levels.parquet"
    numbers = [f"{case([c for c, _ in cases], range(1, 99))} AS l{i}" for i, cases in enumerate(evidence.values())]
    query = f"SELECT a.id AS l, b.id AS r, {', '.join(numbers)} {our_candidates(name, OURS[name]['clauses'])}"
    run_script(shell, [our_tables(name, folder), f"COPY ({query}) TO '{levels}'"])
    table = pyarrow.parquet.read_table(levels)
    left, right = table["l"].to_numpy(), table["r"].to_numpy()
    first = half[numpy.minimum(left, right)] == 0
    same = (entity[left] == entity[right])[first]
    level = numpy.stack([table[f"l{i}"].to_numpy()[first] for i in range(len(evidence))], 1)
    patterns, which = numpy.unique(level, axis=0, return_inverse=True)
    count, true = numpy.bincount(which.ravel()), numpy.bincount(which.ravel(), weights=same)
    columns = [patterns[:, i] == n + 1 for i, cases in enumerate(evidence.values()) for n in range(len(cases))]
    design = numpy.stack([*columns, numpy.ones(len(patterns))], 1).astype(float)

    def loss(weights):
        odds, penalty = design @ weights, numpy.r_[weights[:-1], 0]
        value = (count * numpy.logaddexp(0, odds) - true * odds).sum() + (penalty**2).sum() / 2
        return value, design.T @ (count / (1 + numpy.exp(-odds)) - true) + penalty

    weights = minimize(loss, numpy.zeros(design.shape[1]), jac=True, method="L-BFGS-B").x.round(1).tolist()
    print(f"{name}: {len(left)} candidates, start {weights[-1]}")
    for column, cases in evidence.items():
        print(f"  {column}", weights[: len(cases)])
        weights = weights[len(cases) :]


# ---- Splink --------------------------------------------------------------------------------------------------------

# Pairs and clusters have thresholds of their own, as match weights. Clusters gain from a higher one: they are connected
# components, Splink's only method for one table.
# Training with the known pairs of the first half changes F1 by 0.1 at most.
SPLINK = {"fake_20000": (-0.5, 5.5), "people": (2.0, 2.0)}


def splink_comparisons(name):
    import splink.comparison_level_library as levels
    import splink.comparison_library as library

    def comparison(column, middle, frequencies):
        ends = [levels.NullLevel(column), levels.ExactMatchLevel(column, term_frequency_adjustments=frequencies)]
        return library.CustomComparison(
            output_column_name=column, comparison_levels=[*ends, *middle, levels.ElseLevel()]
        )

    def edits(column, *most, frequencies=False):
        return comparison(column, [levels.LevenshteinLevel(column, n) for n in most], frequencies)

    if name == "people":
        # with city, sex and middle name it takes longer, and F1 is the same
        names = [edits("first_name", 1, 3, frequencies=True), edits("surname", 1, 3, frequencies=True)]
        texts = [edits(column, 1, 3) for column in ("birth_date", "phone", "street", "employer")]
        rest = [edits(column) for column in ("postcode", "house_number", "occupation")]
        return [*names, *texts, edits("email", 1, 4), *rest]

    def name_comparison(column, other):
        middle = [
            levels.LevenshteinLevel(column, 1),
            levels.JaroWinklerLevel(column, 0.9),
            levels.LevenshteinLevel(column, 2),
            levels.CustomLevel(f"{column}_l = {other}_r OR {other}_l = {column}_r"),
            levels.CustomLevel(f"levenshtein({column}_l, {other}_r) <= 2 OR levenshtein({other}_l, {column}_r) <= 2"),
            *[levels.JaroWinklerLevel(column, least) for least in (0.8, 0.7, 0.5)],
        ]
        return comparison(column, middle, True)

    # Splink's ready comparisons of names, dates and emails reach an F1 of 85 (first half, clusters), these levels 92.7
    days = "abs(day_l - day_r)"
    dates = [
        levels.CustomLevel(f"{days} <= 2"),
        levels.LevenshteinLevel("dob", 1),
        levels.CustomLevel(f"{days} <= 36"),
        levels.CustomLevel(f"abs({days} - 365) <= 36"),
        levels.CustomLevel(f"abs({days} - 3652) <= 38"),
        levels.LevenshteinLevel("dob", 2),
        levels.CustomLevel(f"abs({days} - 3652) <= 404"),
        levels.CustomLevel(f"{days} <= 3720"),
    ]
    cities = [levels.LevenshteinLevel("city", 2), *[levels.JaroWinklerLevel("city", least) for least in (0.85, 0.7)]]
    emails = [*[levels.LevenshteinLevel("email", most) for most in (2, 4, 6)], levels.JaroWinklerLevel("email", 0.7)]
    return [
        name_comparison("first_name", "surname"),
        name_comparison("surname", "first_name"),
        comparison("dob", dates, False),
        comparison("city", cities, True),
        comparison("email", emails, False),
    ]


def splink_blocks(name):
    from splink import block_on

    return [block_on(*block) for block in BLOCKS] if name == "people" else block_conditions(name, "l", "r")


def splink(name, folder, thresholds):
    import duckdb
    from splink import DuckDBAPI, Linker, SettingsCreator, block_on

    start = time.perf_counter()
    database = duckdb.connect()
    if name == "people":
        extra, recall = "", 0.8
        sure = [block_on("email"), block_on("phone", "birth_year")]
        trained = [["phone"], ["postcode", "birth_year"]]
    else:
        extra = ", date_diff('day', DATE '1970-01-01', dob::DATE) AS day, split_part(email, '@', 2) AS domain"
        sure, recall = [block_on("email"), block_on("dob", "first_name"), block_on("dob", "surname")], 0.5
        trained = [["dob"], ["email"], ["first_name", "surname"]]
    database.execute(f"CREATE TABLE people AS SELECT *, id AS unique_id{extra} FROM '{source(name, folder)}'")
    settings = SettingsCreator(
        link_type="dedupe_only",
        comparisons=splink_comparisons(name),
        blocking_rules_to_generate_predictions=splink_blocks(name),
        retain_matching_columns=False,
    )
    linker = Linker(DuckDBAPI(database).register("people"), settings)
    linker.training.estimate_probability_two_random_records_match(sure, recall=recall)
    linker.training.estimate_u_using_random_sampling(max_pairs=1e6)
    for columns in trained:
        linker.training.estimate_parameters_using_expectation_maximisation(block_on(*columns))
    trained_at = time.perf_counter()
    found = linker.inference.predict(threshold_match_weight=thresholds[0])
    linked = time.perf_counter()
    clusters = linker.clustering.cluster_pairwise_predictions_at_threshold(found, threshold_match_weight=thresholds[1])
    clustered = time.perf_counter()
    database.execute(f"CREATE TABLE known AS SELECT * FROM '{folder}/{name}_entities.parquet'")
    pairs = f"SELECT unique_id_l AS l, unique_id_r AS r, match_weight AS score FROM {found.physical_name}"
    members = f"SELECT unique_id AS id, cluster_id FROM {clusters.physical_name}"
    inside = "SELECT a.id AS l, b.id AS r FROM ({0}) a JOIN ({0}) b ON a.{1} = b.{1} AND a.id < b.id"
    for candidates in (pairs, inside.format(members, "cluster_id"), inside.format("SELECT * FROM known", "entity")):
        query = f"SELECT count(*), count(*) FILTER (a.entity = b.entity) FROM ({candidates}) p"
        database.execute(f"{query} JOIN known a ON a.id = p.l JOIN known b ON b.id = p.r").fetchall()
    evaluated = time.perf_counter()
    database.execute(f"COPY ({pairs}) TO '{folder}/{name}_splink_pairs.parquet'")
    database.execute(f"COPY ({members}) TO '{folder}/{name}_splink_clusters.parquet'")
    return {
        "train": trained_at - start,
        "link": linked - start,
        "cluster": clustered - linked,
        "evaluate": evaluated - clustered,
    }


# ---- goldenmatch ---------------------------------------------------------------------------------------------------

# Without a configuration goldenmatch reaches an F1 of 67 on fake_20000, and refuses the million people as unsure. Its
# Fellegi-Sunter model over the blocks of Splink does far better. Its date scorer is no better than levenshtein, and
# slower. A pair between the thresholds is one to review: it counts as a pair, but not for clusters.
GOLDENMATCH = {"fake_20000": (0.37, 0.37), "people": (0.38, 0.38)}


def goldenmatch(name, folder, thresholds):
    import goldenmatch as tool
    import pyarrow.compute as compute
    from goldenmatch.config import schemas
    from goldenmatch.core import evaluate

    def field(column, levels, scorer="levenshtein", frequencies=False):
        return schemas.MatchkeyField(
            field=column,
            transforms=["strip"] if name == "people" else ["lowercase", "strip"],
            scorer=scorer,
            levels=len(levels) + 1,
            level_thresholds=levels,
            tf_adjustment=frequencies,
        )

    def block(columns):
        parts = {column: [f"substring:{part[0]}:{part[1]}"] for column, part in columns.items() if part}
        return schemas.BlockingKeyConfig(
            fields=list(columns), transforms=["strip"], field_transforms=parts, additive=True
        )

    start = time.perf_counter()
    table = pyarrow.parquet.read_table(source(name, folder))
    if name == "people":
        table = table.drop_columns(["id", "person"])
        blocks = [block(dict.fromkeys(columns)) for columns in BLOCKS]
        fields = [field(column, [1.0, 0.85], "jaro_winkler", True) for column in ("first_name", "surname")]
        fields += [field(column, [1.0, 0.85]) for column in ("birth_date", "phone", "email")]
        fields += [field(column, [1.0, 0.8]) for column in ("street", "employer")]
        fields += [field(column, [1.0], "exact") for column in ("postcode", "house_number")]
        largest, bridges = 100, False
    else:
        domain = compute.struct_field(compute.extract_regex(table["email"], "@(?P<domain>.*)$"), "domain")
        table = table.drop_columns(["id"]).append_column("domain", domain)
        blocks = [block(columns) for columns in FAKE_BLOCKS]
        names = [1.0, 0.92, 0.85, 0.7, 0.5]
        fields = [field(column, names, "jaro_winkler", True) for column in ("first_name", "surname")]
        fields += [field("dob", [1.0, 0.9, 0.8, 0.7, 0.6]), field("city", [1.0, 0.85, 0.7], "jaro_winkler", True)]
        fields += [field("email", [1.0, 0.9, 0.8, 0.7], frequencies=True)]
        # as for ours: no entity of the first half has more than six rows
        largest, bridges = 6, True
    key = schemas.MatchkeyConfig(
        name="people",
        type="probabilistic",
        fields=fields,
        missing="unobserved",
        em_iterations=50,
        review_threshold=min(thresholds),
        link_threshold=thresholds[1],
    )
    blocking = schemas.BlockingConfig(strategy="multi_pass", keys=blocks[:1], passes=blocks, max_block_size=5000)
    golden = schemas.GoldenRulesConfig(default_strategy="most_complete", max_cluster_size=largest)
    splits = schemas.ClusterConfig(split_weak_bridges=bridges)
    result = tool.dedupe_df(
        table,
        config=schemas.GoldenMatchConfig(matchkeys=[key], blocking=blocking, golden_rules=golden, cluster=splits),
        keep_original_values=False,
    )
    linked = time.perf_counter()
    entity = pyarrow.parquet.read_table(folder / f"{name}_entities.parquet")["entity"].to_numpy()
    order = numpy.argsort(entity, kind="stable")
    persons = numpy.split(order, numpy.flatnonzero(numpy.diff(entity[order])) + 1)
    truth = {pair for members in persons if len(members) > 1 for pair in itertools.combinations(members.tolist(), 2)}
    scored = [*result.scored_pairs, *result.review_pairs]
    ready = time.perf_counter()
    evaluate.evaluate_pairs(scored, truth)
    evaluate.evaluate_clusters(result.clusters, truth)
    evaluated = time.perf_counter()
    cluster = numpy.arange(len(entity))
    for found in result.clusters.values():
        cluster[found["members"]] = min(found["members"])
    pairs = pyarrow.table(dict(zip(("l", "r", "score"), map(list, zip(*scored)))))
    pyarrow.parquet.write_table(pairs, folder / f"{name}_goldenmatch_pairs.parquet")
    clusters = pyarrow.table({"id": numpy.arange(len(cluster)), "cluster_id": cluster})
    pyarrow.parquet.write_table(clusters, folder / f"{name}_goldenmatch_clusters.parquet")
    return {"link": linked - start, "evaluate": evaluated - ready}


# ---- runs and the table --------------------------------------------------------------------------------------------


def process(command):
    """Runs a command; returns what it printed and its peak memory in MB."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        child = subprocess.Popen(command, stdout=out, stderr=err)
        _, status, usage = os.wait4(child.pid, 0)
        out.seek(0)
        err.seek(0)
        if status:
            sys.exit(f"{command} failed:\n{out.read()[-2000:]}{err.read()[-4000:]}")
        return out.read(), usage.ru_maxrss // 1024


def run(tool, arguments, name, thresholds):
    if tool in ("ours", "ours-blocks"):
        return ours(arguments.shell, tool, name, arguments.folder, thresholds)
    child = [sys.executable, __file__, arguments.folder, "--child", tool, name, *map(str, thresholds)]
    text, memory = process(child)
    return json.loads(text.strip().splitlines()[-1]), memory


def read_results(tool, name, folder):
    pairs = pyarrow.parquet.read_table(folder / f"{name}_{tool}_pairs.parquet")
    clusters = pyarrow.parquet.read_table(folder / f"{name}_{tool}_clusters.parquet").sort_by("id")
    return [column.to_numpy() for column in (pairs["l"], pairs["r"], clusters["cluster_id"])]


def row(tool, name, thresholds, runs, measures):
    def seconds(*keys):
        times = [sum(steps[key] for key in keys if key in steps) for steps, _ in runs]
        return f"{statistics.median(times):.2f}" if keys[0] in runs[0][0] else ""

    cells = [name, tool, " / ".join(f"{t:g}" for t in thresholds), seconds("link", "cluster")]
    cells += [seconds(key) for key in ("train", "link", "cluster", "evaluate")]
    cells.append(f"{statistics.median(memory for _, memory in runs):.0f}")
    cells += [" ".join(f"{m:.2f}" for m in measure) for which in (0, 1) for measure in measures[which]]
    print("| " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=lambda text: pathlib.Path(text).resolve())
    parser.add_argument("shell", nargs="?", help="similarity-cli, for ours")
    parser.add_argument("--sets", nargs="+", default=list(OURS), choices=list(OURS))
    parser.add_argument("--tools", nargs="+", default=TOOLS, choices=TOOLS)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--thresholds", type=float, nargs="+")
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        tool, name, *thresholds = arguments.child
        steps = {"splink": splink, "goldenmatch": goldenmatch}[tool](name, arguments.folder, [*map(float, thresholds)])
        print(json.dumps(steps))
        return
    arguments.folder.mkdir(parents=True, exist_ok=True)
    titles = ["set", "tool", "from: pairs / clusters", "total s", "train s", "train and link s", "cluster s"]
    titles += ["evaluate s", "MB"]
    titles += [f"{half} half, {of}: P R F1" for half in ("first", "second") for of in ("pairs", "clusters")]
    if not arguments.fit:
        print("| " + " | ".join(titles) + " |\n" + "|---" * len(titles) + "|")
    for name in arguments.sets:
        entity, half = make(name, arguments.folder)
        if arguments.fit:
            fit(arguments.shell, name, arguments.folder, entity, half)
            continue
        best = dict.fromkeys(("ours", "ours-blocks"), OURS[name]["thresholds"])
        best |= {"splink": SPLINK[name], "goldenmatch": GOLDENMATCH[name]}
        # the clauses of ours are those blocks among people
        tools = [tool for tool in arguments.tools if (name, tool) != ("people", "ours-blocks")]
        tried = [(tool, (t, t)) for tool in tools for t in arguments.thresholds or []]
        tried = tried or [(tool, best[tool]) for tool in tools]
        runs = {one: [] for one in tried}
        for _ in range(arguments.runs):
            for tool, thresholds in tried:
                runs[tool, thresholds].append(run(tool, arguments, name, thresholds))
                if len(runs[tool, thresholds]) == arguments.runs:
                    measures = quality(entity, half, *read_results(tool, name, arguments.folder))
                    row(tool, name, thresholds, runs[tool, thresholds], measures)


if __name__ == "__main__":
    main()
