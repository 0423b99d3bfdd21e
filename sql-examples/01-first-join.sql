-- Duplicates among 35,846 listed companies: names that share three quarters of their words.
CREATE EXTERNAL TABLE companies STORED AS PARQUET LOCATION 'sql-examples/data/companies.parquet';

SELECT a.name, b.name AS also_listed_as, round(jaccard(word_tokens(a.name), word_tokens(b.name)), 2) AS score
FROM companies a
SIMILARITY JOIN companies b
  ON jaccard(word_tokens(a.name), word_tokens(b.name)) >= 0.75
 AND a.country = b.country
 AND a.id < b.id
WHERE a.country = 'Switzerland' AND lower(a.name) <> lower(b.name)
ORDER BY score DESC, a.name, b.name
LIMIT 15;
