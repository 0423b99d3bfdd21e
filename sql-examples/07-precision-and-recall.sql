-- How good is a join? Its pairs against the known truth, for several thresholds.
CREATE EXTERNAL TABLE census_a STORED AS PARQUET LOCATION 'sql-examples/data/census_a.parquet';
CREATE EXTERNAL TABLE census_b STORED AS PARQUET LOCATION 'sql-examples/data/census_b.parquet';
CREATE EXTERNAL TABLE truth STORED AS PARQUET LOCATION 'sql-examples/data/census_truth.parquet';

CREATE TABLE found AS
SELECT a.id AS id_l, b.id AS id_r,
       jaccard(qgrams(concat_ws(' ', a.given_name, a.surname, a.address_1, a.suburb), 2),
               qgrams(concat_ws(' ', b.given_name, b.surname, b.address_1, b.suburb), 2)) AS score
FROM census_a a
SIMILARITY JOIN census_b b
  ON jaccard(qgrams(concat_ws(' ', a.given_name, a.surname, a.address_1, a.suburb), 2),
             qgrams(concat_ws(' ', b.given_name, b.surname, b.address_1, b.suburb), 2)) >= 0.35;

SELECT threshold, pairs, round(correct / pairs, 4) AS precision, round(correct / truth, 4) AS recall
FROM (
  SELECT t.threshold, count(*) AS pairs, CAST(count(truth.id_l) AS DOUBLE) AS correct,
         (SELECT CAST(count(*) AS DOUBLE) FROM truth) AS truth
  FROM (VALUES (0.35), (0.4), (0.45), (0.5), (0.6), (0.7)) t(threshold)
  JOIN found ON found.score >= t.threshold
  LEFT JOIN truth ON truth.id_l = found.id_l AND truth.id_r = found.id_r
  GROUP BY t.threshold)
ORDER BY threshold;
