-- People whose names differ by at most two typos, in a small file of 1,000 people with duplicates.
CREATE EXTERNAL TABLE people STORED AS CSV LOCATION 'sql-examples/data/people.csv' OPTIONS ('format.has_header' 'true');

SELECT a.given_name, a.surname, b.given_name AS given_name_2, b.surname AS surname_2,
       levenshtein(concat_ws(' ', a.given_name, a.surname), concat_ws(' ', b.given_name, b.surname)) AS edits
FROM people a
SIMILARITY JOIN people b
  ON levenshtein(concat_ws(' ', a.given_name, a.surname), concat_ws(' ', b.given_name, b.surname)) BETWEEN 1 AND 2
 AND a.id < b.id
ORDER BY edits, a.surname, a.given_name, b.surname, b.given_name
LIMIT 12;

-- Swapped letters count once with osa_distance, twice with levenshtein; Jaro-Winkler favours a common beginning.
SELECT levenshtein('brian', 'brain') AS levenshtein, osa_distance('brian', 'brain') AS osa,
       round(jaro_winkler_similarity('brian', 'brain'), 3) AS jaro_winkler;
