-- Duplicates among 35,846 listed companies: names of one country that share three quarters of their words.
CREATE EXTERNAL TABLE companies STORED AS PARQUET LOCATION 'sql-examples/data/companies.parquet';

SELECT DISTINCT a.country, a.name, b.name AS also_listed_as,
       round(jaccard(word_tokens(a.name), word_tokens(b.name)), 2) AS score
FROM companies a
SIMILARITY JOIN companies b
  ON jaccard(word_tokens(a.name), word_tokens(b.name)) >= 0.75
 AND a.country = b.country
 AND a.id < b.id
WHERE a.country IN ('France', 'Italy', 'Netherlands', 'Switzerland') AND lower(a.name) <> lower(b.name)
ORDER BY a.country, a.name, b.name
LIMIT 5;
