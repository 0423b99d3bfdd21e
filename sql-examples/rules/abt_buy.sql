-- Abt and Buy: 1,081 and 1,092 products of two electronics shops, 1,097 pairs.
-- Source: github.com/chibuzorwilliams/fuzzy-join-llm data/abt-buy; Leipzig DB group benchmark, no explicit licence
-- (research use).
-- Ten rules: the model number, with or without its colour suffix, wherever it stands, and the brand; where Buy names no
-- model, the brand, many words of the name and a similar price.
-- The paths are those of the folder that holds the data sets: run it there.

CREATE EXTERNAL TABLE abt_raw STORED AS PARQUET LOCATION 'abt_buy/a.parquet';
CREATE EXTERNAL TABLE buy_raw STORED AS PARQUET LOCATION 'abt_buy/b.parquet';
CREATE EXTERNAL TABLE truth STORED AS PARQUET LOCATION 'abt_buy/truth.parquet';

CREATE VIEW abt AS
SELECT id, price, words, everything, brand, colour, last_part, model, letters, description,
       -- model numbers without the letters at their end, which are a colour or a country
       CASE WHEN length(regexp_replace(last_part, '[a-z]+$', '')) >= 3 THEN regexp_replace(last_part, '[a-z]+$', '') END AS last_base,
       CASE WHEN length(regexp_replace(model, '[a-z]+$', '')) >= 3 THEN regexp_replace(model, '[a-z]+$', '') END AS base,
       -- the first letter of that end
       regexp_match(last_part, '[0-9]([a-z])[a-z]*$')[1] AS last_end, regexp_match(model, '[0-9]([a-z])[a-z]*$')[1] AS ending
FROM (
  SELECT id, price,
         -- the name with each model number in one piece; as letters and digits alone
         regexp_replace(lower(name), '[-/.'']', '', 'g') AS words,
         regexp_replace(lower(name), '[^a-z0-9]', '', 'g') AS letters,
         lower(concat_ws(' ', name, description)) AS everything,
         regexp_replace(lower(description), '[^a-z0-9]', '', 'g') AS description,
         split_part(lower(name), ' ', 1) AS brand,
         regexp_match(lower(name), '\b(black|white|silver|red|blue|pink|green|gray|titanium|stainless)\b')[1] AS colour,
         -- the model number: what stands after the last dash
         CASE WHEN name LIKE '% - %' THEN regexp_replace(regexp_replace(lower(name), '^.* - ', ''), '[^a-z0-9]', '', 'g') END AS last_part,
         -- or the first word of letters and digits that is no measure
         regexp_replace(regexp_match(regexp_replace(lower(name), '\b[0-9.-]+ ?-?(mm|gb|mb|way|cup|inch|in|disc|disk|line|port|x|pack|ghz|p|ft|d|hour|shelf|channel)\b', '', 'g'),
           '([a-z]+-?[a-z]*[0-9][a-z0-9-]*|[0-9]+-?[0-9]*[a-z][a-z0-9-]*|[0-9]{4,})')[1], '[^a-z0-9]', '', 'g') AS model
  FROM abt_raw);

-- The same of the other table.
CREATE VIEW buy AS
SELECT id, price, words, everything, brand, colour, last_part, model, letters, description,
       CASE WHEN length(regexp_replace(last_part, '[a-z]+$', '')) >= 3 THEN regexp_replace(last_part, '[a-z]+$', '') END AS last_base,
       CASE WHEN length(regexp_replace(model, '[a-z]+$', '')) >= 3 THEN regexp_replace(model, '[a-z]+$', '') END AS base,
       regexp_match(last_part, '[0-9]([a-z])[a-z]*$')[1] AS last_end, regexp_match(model, '[0-9]([a-z])[a-z]*$')[1] AS ending
FROM (
  SELECT id, price,
         regexp_replace(lower(name), '[-/.'']', '', 'g') AS words,
         regexp_replace(lower(name), '[^a-z0-9]', '', 'g') AS letters,
         lower(concat_ws(' ', name, description)) AS everything,
         regexp_replace(lower(description), '[^a-z0-9]', '', 'g') AS description,
         split_part(lower(name), ' ', 1) AS brand,
         regexp_match(lower(name), '\b(black|white|silver|red|blue|pink|green|gray|titanium|stainless)\b')[1] AS colour,
         CASE WHEN name LIKE '% - %' THEN regexp_replace(regexp_replace(lower(name), '^.* - ', ''), '[^a-z0-9]', '', 'g') END AS last_part,
         regexp_replace(regexp_match(regexp_replace(lower(name), '\b[0-9.-]+ ?-?(mm|gb|mb|way|cup|inch|in|disc|disk|line|port|x|pack|ghz|p|ft|d|hour|shelf|channel)\b', '', 'g'),
           '([a-z]+-?[a-z]*[0-9][a-z0-9-]*|[0-9]+-?[0-9]*[a-z][a-z0-9-]*|[0-9]{4,})')[1], '[^a-z0-9]', '', 'g') AS model
  FROM buy_raw);

-- The ten rules.
CREATE MATCHING RULE abt_buy ON a, b AS
  -- 1. the same last part of the name, of five characters or more
  (a.last_part = b.last_part AND length(a.last_part) >= 5)
  -- 2. the last part of Abt's name is the model number in Buy's
  OR (a.last_part = b.model AND length(a.last_part) >= 4)
  -- 3. the same brand, the last part of Abt's name within Buy's name
  OR (a.brand = b.brand AND length(a.last_part) >= 4 AND strpos(b.letters, a.last_part) > 0)
  -- 4. the same brand, the last part of Abt's name within Buy's description
  OR (a.brand = b.brand AND length(a.last_part) >= 5 AND strpos(b.description, a.last_part) > 0)
  -- 5. the same brand, the same model number but for its end, no other colour by letter or word
  OR (a.brand = b.brand AND a.last_base = b.base AND coalesce(a.last_end = b.ending, true)
      AND coalesce(a.colour = b.colour, true))
  -- 6. the same model number in the names, a fifth of the words, no other colour
  OR (a.model = b.model AND length(a.model) >= 5 AND jaccard(word_tokens(a.words), word_tokens(b.words)) >= 0.2
      AND coalesce(a.colour = b.colour, true))
  -- 7. the same last parts but for their end, no other colour, a fifth of the words
  OR (a.last_base = b.last_base AND coalesce(a.last_end = b.last_end, true) AND coalesce(a.colour = b.colour, true)
      AND overlap_coefficient(word_tokens(a.words), word_tokens(b.words)) >= 0.2)
  -- 8. the same brand, no model number with Buy, many words, a similar price or the same colour
  OR (a.brand = b.brand AND b.model IS NULL AND dice(word_tokens(a.words), word_tokens(b.words)) >= 0.5
      AND coalesce(abs(a.price - b.price) <= 0.25 * a.price, a.colour = b.colour))
  -- 9. the same brand, many words of name and description, no other colour
  OR (a.brand = b.brand AND jaccard(word_tokens(a.everything), word_tokens(b.everything)) >= 0.4
      AND coalesce(a.colour = b.colour, true))
  -- 10. two thirds of the words, whatever the brand is called, no other colour
  OR (jaccard(word_tokens(a.words), word_tokens(b.words)) >= 0.65 AND coalesce(a.colour = b.colour, true)
      AND coalesce(abs(a.price - b.price) <= 0.25 * a.price, true));

-- How good they are; cssr is pairs over all pairs of rows.
WITH matches AS (
  SELECT a.id AS id_l, b.id AS id_r
  FROM abt a SIMILARITY JOIN buy b ON match_rule('abt_buy', a, b)
)
SELECT pairs, true_positives,
       round(1.0 * true_positives / truth, 4) AS recall,
       round(1.0 * true_positives / pairs, 4) AS precision,
       round(2.0 * true_positives / (pairs + truth), 4) AS f1,
       pairs / (CAST((SELECT count(*) FROM abt) AS DOUBLE) * (SELECT count(*) FROM buy)) AS cssr
FROM (SELECT count(*) AS pairs, count(t.id_l) AS true_positives, (SELECT count(*) FROM truth) AS truth
      FROM matches m LEFT JOIN truth t ON t.id_l = m.id_l AND t.id_r = m.id_r);
