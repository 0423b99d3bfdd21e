-- Near-duplicates among many rows: a join that may miss pairs, and says how many it finds.

CREATE EXTERNAL TABLE companies STORED AS PARQUET LOCATION 'sql-examples/data/companies.parquet';

-- at least 95 of 100 pairs, and no pair that is less similar; the most similar ones are hardly ever missed
SELECT DISTINCT a.name, b.name AS other, round(jaccard(a.name, b.name, 3), 2) AS score
FROM companies a SIMILARITY JOIN companies b
  ON jaccard(a.name, b.name, 3) >= 0.7 AND a.id < b.id AND a.name <> b.name WITH RECALL 0.95
WHERE lower(a.name) <> lower(b.name) AND a.country = 'Finland'
ORDER BY score DESC, a.name, other LIMIT 5;

-- the same as a function, for table functions and for any SQL parser
SELECT name, cluster_id FROM duplicates('SELECT id, name FROM companies WHERE country = ''Iceland''', 'id',
  'with_recall(jaccard(a.name, b.name, 3) >= 0.5, 0.95)') ORDER BY cluster_id, name LIMIT 5;

-- signatures estimate the similarity of two texts without a join
SELECT round(minhash_similarity(minhash(qgrams('near-duplicate', 3), 256), minhash(qgrams('near duplicates', 3), 256)), 1)
  AS estimate, round(jaccard('near-duplicate', 'near duplicates', 3), 1) AS exact;
