-- From records to entities: one call gives each person a cluster, and the known pairs tell how good they are.
CREATE EXTERNAL TABLE people STORED AS CSV
LOCATION 'sql-examples/data/people.csv' OPTIONS ('format.has_header' 'true');
CREATE EXTERNAL TABLE known STORED AS CSV
LOCATION 'sql-examples/data/people_truth.csv' OPTIONS ('format.has_header' 'true');

CREATE MATCHING RULE person ON t, s AS
  (t.date_of_birth = s.date_of_birth AND levenshtein(t.surname, s.surname) <= 2)
  OR (t.suburb = s.suburb AND jaro_winkler_similarity(t.given_name, s.given_name) >= 0.9
      AND jaro_winkler_similarity(t.surname, s.surname) >= 0.9)
  OR jaccard(qgrams(concat_ws(' ', t.given_name, t.surname, t.address_1), 3),
             qgrams(concat_ws(' ', s.given_name, s.surname, s.address_1), 3)) >= 0.5;

CREATE TABLE entities AS SELECT * FROM duplicates('people', 'id', 'person');

SELECT members, count(*) AS clusters
FROM (SELECT count(*) AS members FROM entities GROUP BY cluster_id) GROUP BY members ORDER BY members;

-- every pair of a cluster against the known pairs
SELECT tp, fp, fn, round(precision, 3) AS precision, round(recall, 3) AS recall, round(f1, 3) AS f1
FROM evaluate_pairs('SELECT a.id, b.id AS other FROM entities a JOIN entities b ON a.cluster_id = b.cluster_id AND a.id < b.id',
                    'known');

-- the same clusters when a third of the people come later
CREATE TABLE earlier AS SELECT * FROM duplicates('SELECT * FROM people WHERE id % 3 > 0', 'id', 'person');

SELECT count(*) AS people, count(DISTINCT cluster_id) AS clusters,
       count(*) FILTER (WHERE previous_cluster_id IS NULL) AS new,
       count(*) FILTER (WHERE previous_cluster_id <> cluster_id) AS merged
FROM extend_duplicates('earlier', 'SELECT * FROM people WHERE id % 3 = 0', 'id', 'person');

-- why are these two one person?
SELECT clause, part, round(score, 2) AS score, holds, clause_holds
FROM explain_match('people', 'id', 'person', 1, 330);
