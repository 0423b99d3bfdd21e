-- Keep one row of each group of duplicates: a row goes when a similar one came before it.
CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'sql-examples/data/people.csv' OPTIONS ('format.has_header' 'true');

CREATE VIEW described AS
SELECT id, concat_ws(' ', given_name, surname, address_1, address_2, suburb, postcode) AS description FROM people;

SELECT count(*) AS people, count(DISTINCT description) AS distinct_as_written FROM described;

SELECT count(*) AS distinct_by_similarity
FROM described a
WHERE NOT EXISTS (
  SELECT 1 FROM described b WHERE jaccard(qgrams(a.description, 3), qgrams(b.description, 3)) >= 0.4 AND b.id < a.id);
