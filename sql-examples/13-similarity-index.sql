CREATE EXTERNAL TABLE cities STORED AS PARQUET LOCATION 'sql-examples/data/cities.parquet';

-- The first query about a name builds the index; the session keeps it for the next ones.
CREATE SIMILARITY INDEX by_name ON cities (name);

-- A name that was heard, not read.
SELECT name, cc, levenshtein(name, 'Insbruk') AS edits FROM cities ORDER BY edits, name LIMIT 3;

-- Another one, in Switzerland: where rows without a score come last, the index knows the first ones.
SELECT name, cc, round(jaro_winkler_similarity(name, 'Sankt Gallen'), 3) AS score FROM cities
WHERE cc = 'CH' ORDER BY jaro_winkler_similarity(name, 'Sankt Gallen') DESC NULLS LAST, name LIMIT 3;

-- Three names, each with the most similar one that is another: a join uses the same index.
SELECT a.name, b.name AS other, round(similarity(a.name, b.name), 3) AS score
FROM (VALUES ('Salzburg'), ('Freiburg'), ('Winterthur')) AS a (name)
JOIN cities b NEAREST 1 BY SIMILARITY similarity(a.name, b.name) THEN BY b.name ON a.name <> b.name
ORDER BY score DESC, a.name;

DROP SIMILARITY INDEX by_name;
