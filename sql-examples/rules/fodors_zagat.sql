-- Fodor's and Zagat's restaurant guides: 533 and 331 restaurants, 112 in both.
-- Source: github.com/chu-data-lab/zeroer datasets/fodors_zagats; licence: repo Apache-2.0, data from UT Austin RIDDLE
-- (no licence stated).
-- Ten rules: the same phone number with a name or an address in common; the same house and street with a similar name;
-- nearly the same name in the same city; guides that disagree on number or town are reconciled by name and kitchen.
-- The paths are those of the folder that holds the data sets: run it there.

CREATE EXTERNAL TABLE fodors STORED AS PARQUET LOCATION 'fodors_zagat/a.parquet';
CREATE EXTERNAL TABLE zagats STORED AS PARQUET LOCATION 'fodors_zagat/b.parquet';
CREATE EXTERNAL TABLE truth STORED AS PARQUET LOCATION 'fodors_zagat/truth.parquet';

-- Name without "the", "restaurant" and what stands in parentheses; phone as digits; the house number and the words of
-- the street.
CREATE VIEW f AS
SELECT id, trim(regexp_replace(regexp_replace(lower(name), '\([^)]*\)|\b(the|restaurant)\b|''s|''', ' ', 'g'), '[^a-z0-9]+', ' ', 'g')) AS name,
       regexp_replace(phone, '[^0-9]', '', 'g') AS phone, left(regexp_replace(phone, '[^0-9]', '', 'g'), 3) AS area_code,
       regexp_replace(addr, '[^0-9].*$', '') AS house, regexp_replace(addr, '^[0-9]+ *', '') AS street,
       city, type AS kitchen
FROM fodors;

-- The same of the other table.
CREATE VIEW z AS
SELECT id, trim(regexp_replace(regexp_replace(lower(name), '\([^)]*\)|\b(the|restaurant)\b|''s|''', ' ', 'g'), '[^a-z0-9]+', ' ', 'g')) AS name,
       regexp_replace(phone, '[^0-9]', '', 'g') AS phone, left(regexp_replace(phone, '[^0-9]', '', 'g'), 3) AS area_code,
       regexp_replace(addr, '[^0-9].*$', '') AS house, regexp_replace(addr, '^[0-9]+ *', '') AS street,
       city, type AS kitchen
FROM zagats;

-- The ten rules.
CREATE MATCHING RULE fodors_zagat ON a, b AS
  -- 1. the same phone number, and names that share half of the words of the shorter one
  (a.phone = b.phone AND overlap_coefficient(word_tokens(a.name), word_tokens(b.name)) >= 0.5)
  -- 2. the same phone number and house number, names at least faintly alike
  OR (a.phone = b.phone AND a.house = b.house AND similarity(a.name, b.name) >= 0.2)
  -- 3. the same phone number, a similar name by characters
  OR (a.phone = b.phone AND jaro_winkler_similarity(a.name, b.name) >= 0.8)
  -- 4. the same house number in the same city, one name within the other
  OR (a.house = b.house AND a.city = b.city AND overlap_coefficient(word_tokens(a.name), word_tokens(b.name)) >= 0.6)
  -- 5. the same house number and a similar street, a similar name
  OR (a.house = b.house AND similarity(a.street, b.street) >= 0.5 AND similarity(a.name, b.name) >= 0.35)
  -- 6. the same house number and area code, a name with few typos
  OR (a.house = b.house AND a.area_code = b.area_code AND levenshtein(a.name, b.name) <= 3)
  -- 7. the same city and nearly the same name
  OR (a.city = b.city AND jaccard(qgrams(a.name, 3, '#'), qgrams(b.name, 3, '#')) >= 0.6)
  -- 8. the same area code, names of the same words
  OR (a.area_code = b.area_code AND jaccard(word_tokens(a.name), word_tokens(b.name)) >= 0.9)
  -- 9. the same area code and kitchen, a similar name
  OR (a.area_code = b.area_code AND a.kitchen = b.kitchen AND similarity(a.name, b.name) >= 0.5)
  -- 10. a branch that moved: the same first two words of the name, the same area code and exchange
  OR (split_part(a.name, ' ', 1) = split_part(b.name, ' ', 1)
      AND split_part(a.name, ' ', 2) = split_part(b.name, ' ', 2) AND left(a.phone, 6) = left(b.phone, 6));

-- How good they are; cssr is pairs over all pairs of rows.
WITH matches AS (
  SELECT a.id AS id_l, b.id AS id_r
  FROM f a SIMILARITY JOIN z b ON match_rule('fodors_zagat', a, b)
)
SELECT pairs, true_positives,
       round(1.0 * true_positives / truth, 4) AS recall,
       round(1.0 * true_positives / pairs, 4) AS precision,
       round(2.0 * true_positives / (pairs + truth), 4) AS f1,
       pairs / (CAST((SELECT count(*) FROM f) AS DOUBLE) * (SELECT count(*) FROM z)) AS cssr
FROM (SELECT count(*) AS pairs, count(t.id_l) AS true_positives, (SELECT count(*) FROM truth) AS truth
      FROM matches m LEFT JOIN truth t ON t.id_l = m.id_l AND t.id_r = m.id_r);
