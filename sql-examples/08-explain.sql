-- What the plan says: the condition that the index serves, the access path, the build side and why, what is left to check.
CREATE EXTERNAL TABLE companies STORED AS PARQUET LOCATION 'sql-examples/data/companies.parquet';

EXPLAIN
SELECT a.name, b.name
FROM companies a SIMILARITY JOIN companies b
  ON jaccard(word_tokens(a.name), word_tokens(b.name)) >= 0.8 AND a.country = b.country AND a.id < b.id;

-- EXPLAIN ANALYZE adds times, candidates, verified and matched pairs, memory, and rows that can never match.
EXPLAIN ANALYZE
SELECT count(*)
FROM companies a SIMILARITY JOIN companies b
  ON jaccard(word_tokens(a.name), word_tokens(b.name)) >= 0.8 AND a.country = b.country AND a.id < b.id;

-- A join that no index serves is left to stock DataFusion, and EXPLAIN VERBOSE says why, in the line that ends in
-- "(declined)". As a SIMILARITY JOIN it would be an error.
EXPLAIN VERBOSE
SELECT count(*) FROM companies a JOIN companies b ON jaccard(word_tokens(a.name), word_tokens(b.name)) < 0.1 AND a.id = 1;
