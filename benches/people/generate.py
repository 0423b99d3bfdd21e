"""Generated people with duplicates, as Parquet: the same arguments give the same file.

    pip install numpy pyarrow
    python benches/people/generate.py people.parquet [rows]

Sixteen columns. Surnames and cities follow Zipf 1.0 over 50,000 and 20,000 values, first names Zipf 1.1 over 5,000;
year of birth is uniform over 90, postcode over 10,000. A tenth of the rows are duplicates of others, with 1 to 3 edits
in up to 4 columns. Every column but `id` and `person` has 5 % NULL. `person` is the truth: rows of one person share it.
"""

import sys

import numpy
import pyarrow
import pyarrow.parquet

path = sys.argv[1]
rows = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
random = numpy.random.default_rng(20)

CONSONANTS = "bcdfghjklmnprstvwz"
VOWELS = "aeiou"


def words(count, syllables):
    """So many different words of two or more syllables."""
    found = {}
    while len(found) < count:
        length = random.integers(2, syllables + 1)
        parts = [random.choice(list(CONSONANTS)) + random.choice(list(VOWELS)) for _ in range(length)]
        if random.random() < 0.4:
            parts.append(random.choice(list(CONSONANTS)))
        found["".join(parts).capitalize()] = None
    return numpy.array(list(found), dtype=object)


def zipf(count, exponent, draws):
    weights = 1.0 / numpy.arange(1, count + 1) ** exponent
    return random.choice(count, draws, p=weights / weights.sum())


def column(values, draws):
    return values[draws]


originals = rows - rows // 10
first_names, surnames, cities = words(5_000, 3), words(50_000, 4), words(20_000, 4)
streets, occupations = words(30_000, 4), words(1_000, 5)
years = 1930 + random.integers(0, 90, originals)
days = random.integers(0, 365, originals)
month, day = days // 31 + 1, days % 31 + 1
numbers = random.integers(0, 10_000_000, originals)
people = {
    "first_name": column(first_names, zipf(5_000, 1.1, originals)),
    "middle_name": column(first_names, zipf(5_000, 1.1, originals)),
    "surname": column(surnames, zipf(50_000, 1.0, originals)),
    "sex": column(numpy.array(["f", "m"], dtype=object), random.integers(0, 2, originals)),
    "birth_year": years.astype(object),
    "birth_date": numpy.array([f"{y}-{m:02}-{d:02}" for y, m, d in zip(years, month, day)], dtype=object),
    "street": column(streets, random.integers(0, 30_000, originals)),
    "house_number": random.integers(1, 200, originals).astype(object),
    "city": column(cities, zipf(20_000, 1.0, originals)),
    "postcode": numpy.array([f"{p:05}" for p in random.integers(0, 10_000, originals) * 7 + 1000], dtype=object),
    "phone": numpy.array([f"0{n:08}" for n in numbers], dtype=object),
    "occupation": column(occupations, zipf(1_000, 1.0, originals)),
    "employer": column(surnames, random.integers(0, 50_000, originals)) + " Ltd",
}
people["email"] = numpy.array(
    [f"{f}.{s}{n % 1000}@mail.org".lower() for f, s, n in zip(people["first_name"], people["surname"], numbers)],
    dtype=object,
)
EDITED = ["first_name", "middle_name", "surname", "birth_date", "street", "city", "phone", "employer", "email"]


def edited(text):
    """With 1 to 3 edits: another character, one more, one less, or two exchanged."""
    letters = list(text)
    for kind in random.integers(0, 4, random.integers(1, 4)):
        at = int(random.integers(0, len(letters)))
        other = CONSONANTS[random.integers(0, len(CONSONANTS))]
        if kind == 0:
            letters[at] = other
        elif kind == 1:
            letters.insert(at, other)
        elif kind == 2 and len(letters) > 1:
            del letters[at]
        elif at > 0:
            letters[at - 1], letters[at] = letters[at], letters[at - 1]
    return "".join(letters)


chosen = random.integers(0, originals, rows - originals)
person = numpy.concatenate([numpy.arange(originals), chosen])
people = {name: numpy.concatenate([values, values[chosen]]) for name, values in people.items()}
for row in range(originals, rows):
    for name in random.choice(EDITED, random.integers(1, 5), replace=False):
        people[name][row] = edited(people[name][row])
order = random.permutation(rows)
table = {"id": pyarrow.array(numpy.arange(rows)), "person": pyarrow.array(person[order])}
for name, values in people.items():
    values = values[order]
    values[random.random(rows) < 0.05] = None
    table[name] = pyarrow.array(values)
pyarrow.parquet.write_table(pyarrow.table(table), path, row_group_size=100_000)
