-- Equality and similarity together: the same date of birth, and a surname that is nearly the same.
CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'sql-examples/data/people.csv' OPTIONS ('format.has_header' 'true');

SELECT a.surname, b.surname AS surname_2, a.given_name, b.given_name AS given_name_2, a.date_of_birth
FROM people a
SIMILARITY JOIN people b
  ON a.date_of_birth = b.date_of_birth
 AND jaro_winkler_similarity(a.surname, b.surname) >= 0.85
 AND a.id < b.id
WHERE a.surname <> b.surname
ORDER BY a.surname, b.surname
LIMIT 12;
