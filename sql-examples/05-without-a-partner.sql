-- Who is in one census and, under no similar name and address, in the other? An anti-join.
CREATE EXTERNAL TABLE census_a STORED AS PARQUET LOCATION 'sql-examples/data/census_a.parquet';
CREATE EXTERNAL TABLE census_b STORED AS PARQUET LOCATION 'sql-examples/data/census_b.parquet';

SELECT count(*) AS without_a_partner
FROM census_a a
LEFT ANTI SIMILARITY JOIN census_b b
  ON jaccard(qgrams(concat_ws(' ', a.given_name, a.surname, a.address_1), 2),
             qgrams(concat_ws(' ', b.given_name, b.surname, b.address_1), 2)) >= 0.5;

-- The same in standard SQL.
SELECT a.given_name, a.surname, a.address_1
FROM census_a a
WHERE NOT EXISTS (
  SELECT 1 FROM census_b b
  WHERE jaccard(qgrams(concat_ws(' ', a.given_name, a.surname, a.address_1), 2),
                qgrams(concat_ws(' ', b.given_name, b.surname, b.address_1), 2)) >= 0.5)
ORDER BY a.surname, a.given_name, a.address_1
LIMIT 10;
