-- DBLP and Google Scholar: 2,616 publications and 64,263 search results, 5,347 pairs (a publication has up to dozens of
-- results).
-- Source: github.com/DataReconciliation/IER-DML (table B) and github.com/SICS-Fundamental-Research-Center/HyperBlocker
-- data/DBLP-Google (table A, truth); Leipzig DB group benchmark, lower-cased DeepMatcher/Magellan version, no explicit
-- licence (research use).
-- Ten rules: titles nearly equal with an author in common; the more a title was garbled, cut or run together, the more
-- of the authors and the year must agree; a long title that no other publication has may stand without authors.
-- The paths are those of the folder that holds the data sets: run it there.

CREATE EXTERNAL TABLE dblp_raw STORED AS PARQUET LOCATION 'dblp_scholar/a.parquet';
CREATE EXTERNAL TABLE scholar_raw STORED AS PARQUET LOCATION 'dblp_scholar/b.parquet';
CREATE EXTERNAL TABLE truth STORED AS PARQUET LOCATION 'dblp_scholar/truth.parquet';

CREATE VIEW dblp AS
SELECT id, year,
       -- blanks get lost and strange letters come in: the words of a title, and its letters and digits alone
       trim(regexp_replace(title, '[^a-z0-9]+', ' ', 'g')) AS title,
       regexp_replace(title, '[^a-z0-9]+', '', 'g') AS letters,
       -- the same, but for titles that several publications have: editorials, book reviews, other columns
       CASE WHEN count(*) OVER (PARTITION BY regexp_replace(title, '[^a-z0-9]+', '', 'g')) = 1
            THEN regexp_replace(title, '[^a-z0-9]+', '', 'g') END AS own_letters,
       -- what stands before a colon, a dash between blanks or a full stop
       regexp_replace(regexp_replace(title, '( : | - | \. ).*$', ''), '[^a-z0-9]+', '', 'g') AS main_letters,
       -- surnames: the last word of each author
       trim(regexp_replace(regexp_replace(authors, ' , |   +', '|', 'g') || '|', '[^|]*?([^| ]*) *[|]', '\1 ', 'g')) AS surnames
FROM dblp_raw;

-- The same of the other table.
CREATE VIEW scholar AS
SELECT id, year,
       trim(regexp_replace(title, '[^a-z0-9]+', ' ', 'g')) AS title,
       regexp_replace(title, '[^a-z0-9]+', '', 'g') AS letters,
       CASE WHEN count(*) OVER (PARTITION BY regexp_replace(title, '[^a-z0-9]+', '', 'g')) = 1
            THEN regexp_replace(title, '[^a-z0-9]+', '', 'g') END AS own_letters,
       regexp_replace(regexp_replace(title, '( : | - | \. ).*$', ''), '[^a-z0-9]+', '', 'g') AS main_letters,
       trim(regexp_replace(regexp_replace(authors, ' , |   +', '|', 'g') || '|', '[^|]*?([^| ]*) *[|]', '\1 ', 'g')) AS surnames
FROM scholar_raw;

-- The ten rules.
CREATE MATCHING RULE dblp_scholar ON a, b AS
  -- 1. the same title but for blanks and punctuation, some author in common
  (a.letters = b.letters AND overlap_coefficient(word_tokens(a.surnames), word_tokens(b.surnames)) >= 0.3)
  -- 2. the same title, which no other publication has, and no other year
  OR (a.own_letters = b.letters AND length(a.letters) >= 20 AND coalesce(abs(a.year - b.year), 0) <= 1)
  -- 3. titles similar by 4-grams, half of the surnames, no other year
  OR (jaccard(qgrams(a.letters, 4), qgrams(b.letters, 4)) >= 0.6
      AND overlap_coefficient(word_tokens(a.surnames), word_tokens(b.surnames)) >= 0.5
      AND coalesce(abs(a.year - b.year), 0) <= 1)
  -- 4. one title within the other, half of the surnames, no other year
  OR (overlap_coefficient(qgrams(a.letters, 4), qgrams(b.letters, 4)) >= 0.87
      AND overlap_coefficient(word_tokens(a.surnames), word_tokens(b.surnames)) >= 0.6
      AND least(length(a.letters), length(b.letters)) >= 18 AND coalesce(abs(a.year - b.year), 0) <= 1)
  -- 5. the same main title, most of the surnames, no other year
  OR (a.main_letters = b.main_letters AND overlap_coefficient(word_tokens(a.surnames), word_tokens(b.surnames)) >= 0.65
      AND length(a.main_letters) >= 12 AND coalesce(abs(a.year - b.year), 0) <= 1)
  -- 6. the same surnames, titles that share most words
  OR (jaccard(word_tokens(a.surnames), word_tokens(b.surnames)) >= 0.9
      AND dice(word_tokens(a.title), word_tokens(b.title)) >= 0.7 AND coalesce(abs(a.year - b.year), 0) <= 1)
  -- 7. similar authors, titles that share most words
  OR (similarity(a.surnames, b.surnames) >= 0.3 AND dice(word_tokens(a.title), word_tokens(b.title)) >= 0.75
      AND coalesce(abs(a.year - b.year), 0) <= 1)
  -- 8. a long title with few typos, whoever the authors
  OR (levenshtein(a.own_letters, b.letters) <= 3 AND length(a.letters) >= 30 AND coalesce(abs(a.year - b.year), 0) <= 1)
  -- 9. long titles nearly equal, whoever the authors
  OR (jaccard(qgrams(a.own_letters, 4), qgrams(b.letters, 4)) >= 0.75 AND length(a.letters) >= 25
      AND coalesce(abs(a.year - b.year), 0) <= 1)
  -- 10. a long title within the other, whoever the authors
  OR (overlap_coefficient(qgrams(a.own_letters, 4), qgrams(b.letters, 4)) >= 0.92
      AND least(length(a.letters), length(b.letters)) >= 40 AND coalesce(abs(a.year - b.year), 0) <= 1);

-- How good they are; cssr is pairs over all pairs of rows.
WITH matches AS (
  SELECT a.id AS id_l, b.id AS id_r
  FROM dblp a SIMILARITY JOIN scholar b ON match_rule('dblp_scholar', a, b)
)
SELECT pairs, true_positives,
       round(1.0 * true_positives / truth, 4) AS recall,
       round(1.0 * true_positives / pairs, 4) AS precision,
       round(2.0 * true_positives / (pairs + truth), 4) AS f1,
       pairs / (CAST((SELECT count(*) FROM dblp) AS DOUBLE) * (SELECT count(*) FROM scholar)) AS cssr
FROM (SELECT count(*) AS pairs, count(t.id_l) AS true_positives, (SELECT count(*) FROM truth) AS truth
      FROM matches m LEFT JOIN truth t ON t.id_l = m.id_l AND t.id_r = m.id_r);
