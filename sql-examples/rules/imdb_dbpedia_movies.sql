-- IMDb and DBpedia films: 27,615 films by title, one of the cast and writers, and 23,182 by title, year, an actor and a
-- director.
-- Source: github.com/AI-team-UoA/pyJedAI data/ccer/D10, an IMDb/DBpedia extract; licence not stated, repo Apache-2.0.
-- 22,863 films are in both; two fifths of the first list have no title, and the actors are rarely the same ones.
-- Ten rules: the same title, if few films have it or if a name agrees; nearly the same title; without a title, a
-- director among the writers, or the actor, if the lists have one film of theirs.
-- The paths are those of the folder that holds the data sets: run it there.

CREATE EXTERNAL TABLE imdb_raw STORED AS PARQUET LOCATION 'imdb_dbpedia_movies/a.parquet';
CREATE EXTERNAL TABLE dbpedia_raw STORED AS PARQUET LOCATION 'imdb_dbpedia_movies/b.parquet';
CREATE EXTERNAL TABLE truth STORED AS PARQUET LOCATION 'imdb_dbpedia_movies/truth.parquet';

-- Titles without article, "(film)" and year; names with their words in alphabetical order. Letters that either list
-- could not write ("u00E9", "?") are left out. Then, how many films of a list have the title, the director or writer,
-- the actor.
CREATE VIEW imdb AS
SELECT *, count(*) OVER (PARTITION BY title) AS of_title, count(*) OVER (PARTITION BY people) AS of_people, count(*) OVER (PARTITION BY actor) AS of_actor
FROM (SELECT id,
  nullif(trim(regexp_replace(regexp_replace(regexp_replace(lower(regexp_replace(title, 'u[0-9A-F]{4}|\?', '', 'g')), ' \([^)]*\)$|''', '', 'g'), '^(the|a|an|la|le|les|el|los|las|il|lo|i|gli|der|die|das|ein|eine|de|den|det|en|un|une|una|o|os|ang) ', ''), '[^a-z0-9]+', ' ', 'g')), '') AS title,
  nullif(array_to_string(array_sort(word_tokens(regexp_replace(starring, 'u[0-9A-F]{4}|\?|\([^)]*\)', '', 'g'))), ' '), '') AS actor,
  nullif(array_to_string(array_sort(word_tokens(regexp_replace(writer, 'u[0-9A-F]{4}|\?|\([^)]*\)', '', 'g'))), ' '), '') AS people
  FROM imdb_raw);
CREATE VIEW dbpedia AS
SELECT *, count(*) OVER (PARTITION BY title) AS of_title, count(*) OVER (PARTITION BY people) AS of_people, count(*) OVER (PARTITION BY actor) AS of_actor
FROM (SELECT id, year,
  nullif(trim(regexp_replace(regexp_replace(lower(replace(title, '?', '')), '(, (the|a|an|la|le|les|el|los|las|il|lo|i|gli|der|die|das|ein|eine|de|den|det|en|un|une|una|o|os|ang|l''))? \([0-9?]{4}[^)]*\).*$|''', '', 'g'), '[^a-z0-9]+', ' ', 'g')), '') AS title,
  nullif(array_to_string(array_sort(word_tokens(regexp_replace("actor name", '\?|\([^)]*\)', '', 'g'))), ' '), '') AS actor,
  nullif(array_to_string(array_sort(word_tokens(regexp_replace("director name", '\?|\([^)]*\)', '', 'g'))), ' '), '') AS people
  FROM dbpedia_raw);

-- The ten rules.
CREATE MATCHING RULE imdb_dbpedia_movies ON a, b AS
  -- 1. the same title of three words or more, which at most six films of both lists have
  (a.title = b.title AND a.title LIKE '% % %' AND a.of_title + b.of_title <= 6)
  -- 2. the same title, which at most three films of both lists have
  OR (a.title = b.title AND a.of_title + b.of_title <= 3)
  -- 3. the same title, and the director is one of the writers
  OR (a.title = b.title AND overlap_coefficient(word_tokens(a.people), word_tokens(b.people)) >= 0.6)
  -- 4. the same title, and similar actors
  OR (a.title = b.title AND jaccard(word_tokens(a.actor), word_tokens(b.actor)) >= 0.3)
  -- 5. a long title with few typos but the same digits, which no other film has
  OR (levenshtein(a.title, b.title) <= 2 AND length(a.title) >= 16 AND a.of_title + b.of_title = 2
      AND regexp_replace(a.title, '[^0-9]', '', 'g') = regexp_replace(b.title, '[^0-9]', '', 'g'))
  -- 6. nearly the same words in the titles, which no other film has
  OR (jaccard(word_tokens(a.title), word_tokens(b.title)) >= 0.8 AND a.of_title = 1 AND b.of_title = 1
      AND length(a.title) >= 16)
  -- 7. half of the words of the title, and the director is the writer
  OR (a.people = b.people AND dice(word_tokens(a.title), word_tokens(b.title)) >= 0.5)
  -- 8. without a title, the director of one film is one of the writers
  OR (overlap_coefficient(word_tokens(a.people), word_tokens(b.people)) >= 0.99 AND a.title IS NULL AND b.of_people = 1
      AND b.people LIKE '% %')
  -- 9. the director of one film wrote one film
  OR (a.people = b.people AND a.of_people = 1 AND b.of_people = 1)
  -- 10. without a title, the actor of at most one film in either list
  OR (a.actor = b.actor AND a.title IS NULL AND a.of_actor = 1 AND b.of_actor = 1);

-- How good they are; cssr is pairs over all pairs of rows.
WITH matches AS (
  SELECT a.id AS id_l, b.id AS id_r
  FROM imdb a SIMILARITY JOIN dbpedia b ON match_rule('imdb_dbpedia_movies', a, b)
)
SELECT pairs, true_positives,
       round(1.0 * true_positives / truth, 4) AS recall,
       round(1.0 * true_positives / pairs, 4) AS precision,
       round(2.0 * true_positives / (pairs + truth), 4) AS f1,
       pairs / (CAST((SELECT count(*) FROM imdb) AS DOUBLE) * (SELECT count(*) FROM dbpedia)) AS cssr
FROM (SELECT count(*) AS pairs, count(t.id_l) AS true_positives, (SELECT count(*) FROM truth) AS truth
      FROM matches m LEFT JOIN truth t ON t.id_l = m.id_l AND t.id_r = m.id_r);
