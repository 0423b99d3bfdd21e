-- A string becomes a set of words or of q-grams; the measure compares the sets.
SELECT word_tokens('Straumann Holding AG') AS words, qgrams('Nestlé', 3) AS grams, qgrams('ab', 3, '#') AS padded;

SELECT jaccard(word_tokens('Novartis AG'), word_tokens('NOVARTIS ag (Basel)')) AS by_words,
       jaccard('Novartis', 'Novratis', 2) AS by_2_grams,
       overlap_coefficient(word_tokens('Novartis'), word_tokens('Novartis AG, Basel')) AS one_inside_the_other;

-- Words are robust against order, q-grams against typos: city names with the same trigrams, but for a few.
CREATE EXTERNAL TABLE cities STORED AS PARQUET LOCATION 'sql-examples/data/cities.parquet';

SELECT a.name, b.name AS similar, a.admin1, b.admin1 AS its_admin1
FROM cities a
SIMILARITY JOIN cities b ON dice(qgrams(lower(a.name), 3, '#'), qgrams(lower(b.name), 3, '#')) >= 0.85 AND a.id < b.id
WHERE a.cc = 'CH' AND b.cc = 'CH' AND a.name <> b.name
ORDER BY a.name, b.name
LIMIT 15;
