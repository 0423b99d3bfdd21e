-- DBLP and ACM: 2,616 and 2,294 publications of five database venues, 1994 to 2003, 2,224 in both.
-- Source: github.com/SICS-Fundamental-Research-Center/HyperBlocker data/dblp-acm; Leipzig DB group benchmark, no
-- explicit licence (research use).
-- Ten rules: the same year and venue with titles that are nearly equal, or equal but for a subtitle; the looser the
-- titles, the more of the authors must agree; columns that appear in every issue need the same authors.
-- The paths are those of the folder that holds the data sets: run it there.

CREATE EXTERNAL TABLE dblp_raw STORED AS PARQUET LOCATION 'dblp_acm/a.parquet';
CREATE EXTERNAL TABLE acm_raw STORED AS PARQUET LOCATION 'dblp_acm/b.parquet';
CREATE EXTERNAL TABLE truth STORED AS PARQUET LOCATION 'dblp_acm/truth.parquet';

CREATE VIEW dblp AS
SELECT id, year,
       trim(regexp_replace(lower(title), '[^a-z0-9]+', ' ', 'g')) AS title,
       regexp_replace(lower(title), '[^a-z0-9]+', '', 'g') AS letters,
       -- the first part of a title: what stands before a colon, a dash between blanks or a parenthesis
       trim(regexp_replace(regexp_replace(lower(title), '(:| - |\().*$', ''), '[^a-z0-9]+', ' ', 'g')) AS main_title,
       -- letters that either side could not write are left out
       trim(regexp_replace(lower(regexp_replace(authors, '&#?[a-zA-Z0-9]+;|\?', '', 'g')), '[^a-z]+', ' ', 'g')) AS authors,
       -- surnames: the last word of each author
       regexp_replace(lower(regexp_replace(regexp_replace(authors, '&#?[a-zA-Z0-9]+;|\?|[.''-]', '', 'g'), ' (Jr|Sr|II|III)\b', '', 'g')), '(^|, *)([^,]* )?([^ ,]+)', '\3 ', 'g') AS surnames,
       CASE WHEN venue LIKE '%SIGMOD Record%' THEN 'record' WHEN venue LIKE 'ACM Trans%' THEN 'tods'
            WHEN venue LIKE 'SIGMOD%' OR venue LIKE '%Management of Data' THEN 'sigmod'
            WHEN venue LIKE '%VLDB J%' THEN 'vldbj' ELSE 'vldb' END AS venue
FROM dblp_raw;

-- The same of the other table.
CREATE VIEW acm AS
SELECT id, year,
       trim(regexp_replace(lower(title), '[^a-z0-9]+', ' ', 'g')) AS title,
       regexp_replace(lower(title), '[^a-z0-9]+', '', 'g') AS letters,
       trim(regexp_replace(regexp_replace(lower(title), '(:| - |\().*$', ''), '[^a-z0-9]+', ' ', 'g')) AS main_title,
       trim(regexp_replace(lower(regexp_replace(authors, '&#?[a-zA-Z0-9]+;|\?', '', 'g')), '[^a-z]+', ' ', 'g')) AS authors,
       regexp_replace(lower(regexp_replace(regexp_replace(authors, '&#?[a-zA-Z0-9]+;|\?|[.''-]', '', 'g'), ' (Jr|Sr|II|III)\b', '', 'g')), '(^|, *)([^,]* )?([^ ,]+)', '\3 ', 'g') AS surnames,
       CASE WHEN venue LIKE '%SIGMOD Record%' THEN 'record' WHEN venue LIKE 'ACM Trans%' THEN 'tods'
            WHEN venue LIKE 'SIGMOD%' OR venue LIKE '%Management of Data' THEN 'sigmod'
            WHEN venue LIKE '%VLDB J%' THEN 'vldbj' ELSE 'vldb' END AS venue
FROM acm_raw;

-- The ten rules.
CREATE MATCHING RULE dblp_acm ON a, b AS
  -- 1. the same title but for blanks and punctuation, some author in common
  (a.year = b.year AND a.venue = b.venue AND a.letters = b.letters
    AND overlap_coefficient(word_tokens(a.surnames), word_tokens(b.surnames)) >= 0.5)
  -- 2. titles nearly equal by words, half of the surnames
  OR (a.year = b.year AND jaccard(word_tokens(a.title), word_tokens(b.title)) >= 0.8
      AND jaccard(word_tokens(a.surnames), word_tokens(b.surnames)) >= 0.5 AND a.venue = b.venue)
  -- 3. titles nearly equal by 3-grams, a third of the surnames
  OR (a.year = b.year AND a.venue = b.venue AND jaccard(qgrams(a.title, 3), qgrams(b.title, 3)) >= 0.75
      AND jaccard(word_tokens(a.surnames), word_tokens(b.surnames)) >= 0.3)
  -- 4. one title within the other, most of the surnames
  OR (a.year = b.year AND a.venue = b.venue AND overlap_coefficient(word_tokens(a.title), word_tokens(b.title)) >= 0.9
      AND jaccard(word_tokens(a.surnames), word_tokens(b.surnames)) >= 0.6)
  -- 5. the same main title, most of the surnames
  OR (a.main_title = b.main_title AND a.year = b.year
      AND jaccard(word_tokens(a.surnames), word_tokens(b.surnames)) >= 0.6 AND a.venue = b.venue)
  -- 6. the same authors, half of the words of the title
  OR (a.year = b.year AND a.venue = b.venue AND a.surnames = b.surnames
      AND overlap_coefficient(word_tokens(a.title), word_tokens(b.title)) >= 0.6)
  -- 7. the same authors in any order, similar titles
  OR (a.year = b.year AND a.venue = b.venue AND jaccard(word_tokens(a.surnames), word_tokens(b.surnames)) >= 0.9
      AND similarity(a.title, b.title) >= 0.6)
  -- 8. a long title with few typos, whoever the authors
  OR (a.year = b.year AND a.venue = b.venue AND levenshtein(a.title, b.title) <= 3 AND length(a.title) >= 30)
  -- 9. titles that share most words, half of the words of the author names
  OR (a.year = b.year AND a.venue = b.venue AND dice(word_tokens(a.title), word_tokens(b.title)) >= 0.8
      AND overlap_coefficient(word_tokens(a.authors), word_tokens(b.authors)) >= 0.5)
  -- 10. whoever the authors, nearly the same words in a long title
  OR (a.year = b.year AND a.venue = b.venue AND jaccard(word_tokens(a.title), word_tokens(b.title)) >= 0.85
      AND length(b.title) >= 30);

-- How good they are; cssr is pairs over all pairs of rows.
WITH matches AS (
  SELECT a.id AS id_l, b.id AS id_r
  FROM dblp a SIMILARITY JOIN acm b ON match_rule('dblp_acm', a, b)
)
SELECT pairs, true_positives,
       round(1.0 * true_positives / truth, 4) AS recall,
       round(1.0 * true_positives / pairs, 4) AS precision,
       round(2.0 * true_positives / (pairs + truth), 4) AS f1,
       pairs / (CAST((SELECT count(*) FROM dblp) AS DOUBLE) * (SELECT count(*) FROM acm)) AS cssr
FROM (SELECT count(*) AS pairs, count(t.id_l) AS true_positives, (SELECT count(*) FROM truth) AS truth
      FROM matches m LEFT JOIN truth t ON t.id_l = m.id_l AND t.id_r = m.id_r);
