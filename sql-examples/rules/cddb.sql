-- CDDB: 9,763 discs as people typed them into freedb, 300 pairs of entries for the same disc.
-- Source: github.com/AI-team-UoA/pyJedAI data/der/cddb, a freedb/CDDB extract (DuDe, HPI); freedb of the GPL era, no
-- explicit licence.
-- Ten rules: artist and title the same with some of the tracks in common, or with no tracks typed; most tracks the same
-- with the artist or the title alike; artist and title exchanged or run together; tracks of one edition within the
-- other's.
-- The paths are those of the folder that holds the data sets: run it there.

CREATE EXTERNAL TABLE discs STORED AS PARQUET LOCATION 'cddb/a.parquet';
CREATE EXTERNAL TABLE truth STORED AS PARQUET LOCATION 'cddb/truth.parquet';

CREATE VIEW cds AS
SELECT id, year,
       trim(regexp_replace(regexp_replace(lower(artist), '\b(the|and)\b', ' ', 'g'), '[^\p{L}0-9]+', ' ', 'g')) AS artist,
       trim(regexp_replace(regexp_replace(lower(title), '\b(the|cd ?[0-9]|dis[ck] ?[0-9])\b', ' ', 'g'), '[^\p{L}0-9]+', ' ', 'g')) AS title,
       -- both together, but for "various artists" and words in letters that freedb garbled
       regexp_replace(regexp_replace(lower(concat_ws(' ', artist, title)), '\b(the|and|various|artists?)\b', ' ', 'g'), '[^ ]*[^ -~][^ ]*', ' ', 'g') AS artist_and_title,
       -- the words of the tracks, but for placeholders, and the same as letters alone: no tracks, no letters
       regexp_replace(tracks, '\b(track|chapter|dis[ck]|pista|onbekend|untitled|unknown)\b', ' ', 'g') AS tracks,
       regexp_replace(regexp_replace(tracks, '\b(track|chapter|dis[ck]|pista|onbekend|untitled|unknown)\b', ' ', 'g'), '[^a-z]+', '', 'g') AS track_letters
FROM discs;

-- The ten rules.
CREATE MATCHING RULE cddb ON a, b AS
  -- 1. the same artist and title, some tracks in common
  (a.artist = b.artist AND a.title = b.title
    AND overlap_coefficient(word_tokens(a.tracks), word_tokens(b.tracks)) >= 0.3)
  -- 2. the same artist and title, on one side no tracks were typed
  OR (a.artist = b.artist AND a.title = b.title AND least(length(a.track_letters), length(b.track_letters)) < 20
      AND a.title <> '')
  -- 3. the same artist, half of the words of the tracks, a title at least faintly alike
  OR (a.artist = b.artist AND jaccard(word_tokens(a.tracks), word_tokens(b.tracks)) >= 0.5
      AND similarity(a.title, b.title) >= 0.2)
  -- 4. the same title, two fifths of the 5-grams of the tracks
  OR (a.title = b.title AND jaccard(qgrams(a.track_letters, 5), qgrams(b.track_letters, 5)) >= 0.4)
  -- 5. similar artist, title and tracks
  OR (jaccard(qgrams(a.track_letters, 5), qgrams(b.track_letters, 5)) >= 0.4 AND similarity(a.artist, b.artist) >= 0.4
      AND similarity(a.title, b.title) >= 0.3)
  -- 6. tracks nearly the same, a similar artist
  OR (jaccard(qgrams(a.track_letters, 5), qgrams(b.track_letters, 5)) >= 0.6 AND similarity(a.artist, b.artist) >= 0.4)
  -- 7. tracks nearly the same, words in common in artist and title, whichever is which
  OR (jaccard(qgrams(a.track_letters, 5), qgrams(b.track_letters, 5)) >= 0.6
      AND overlap_coefficient(word_tokens(a.artist_and_title), word_tokens(b.artist_and_title)) >= 0.75)
  -- 8. the same words in artist and title, whichever is which, a third of the tracks
  OR (jaccard(word_tokens(a.artist_and_title), word_tokens(b.artist_and_title)) >= 0.65
      AND overlap_coefficient(qgrams(a.track_letters, 5), qgrams(b.track_letters, 5)) >= 0.3)
  -- 9. tracks of one disc within the other's, the same artist, similar titles
  OR (overlap_coefficient(qgrams(a.track_letters, 5), qgrams(b.track_letters, 5)) >= 0.7 AND a.artist = b.artist
      AND similarity(a.title, b.title) >= 0.3 AND least(length(a.track_letters), length(b.track_letters)) >= 60)
  -- 10. tracks of one disc within the other's, words in common in artist and title
  OR (overlap_coefficient(qgrams(a.track_letters, 5), qgrams(b.track_letters, 5)) >= 0.6
      AND jaccard(word_tokens(a.artist_and_title), word_tokens(b.artist_and_title)) >= 0.4
      AND least(length(a.track_letters), length(b.track_letters)) >= 60);

-- How good they are; cssr is pairs over all pairs of different rows.
WITH matches AS (
  SELECT a.id AS id_l, b.id AS id_r
  FROM cds a SIMILARITY JOIN cds b ON match_rule('cddb', a, b) AND a.id < b.id
)
SELECT pairs, true_positives,
       round(1.0 * true_positives / truth, 4) AS recall,
       round(1.0 * true_positives / pairs, 4) AS precision,
       round(2.0 * true_positives / (pairs + truth), 4) AS f1,
       pairs / (CAST((SELECT count(*) FROM cds) AS DOUBLE) * ((SELECT count(*) FROM cds) - 1) / 2) AS cssr
FROM (SELECT count(*) AS pairs, count(t.id_l) AS true_positives, (SELECT count(*) FROM truth) AS truth
      FROM matches m LEFT JOIN truth t ON t.id_l = m.id_l AND t.id_r = m.id_r);
