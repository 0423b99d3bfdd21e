-- Listed companies: 35,846 listings on stock exchanges around the world, 49,789 pairs of listings of the same company.
-- Source: github.com/JerBouma/FinanceDatabase database/equities; licence: MIT (repo). Truth: shared security
-- identifiers (silver).
-- Ten rules: the same name, but for legal form, share class and nominal value, with country or sector; names cut to the
-- first letters of each word, as exchanges do; an uncommon first word; the same website or address with a similar name.
-- The paths are those of the folder that holds the data sets: run it there.

CREATE EXTERNAL TABLE companies STORED AS PARQUET LOCATION 'listed_companies/a.parquet';
CREATE EXTERNAL TABLE truth STORED AS PARQUET LOCATION 'listed_companies/truth.parquet';

-- The name in plain letters without nominal value ("DL -,01"), share class and legal form; two abbreviations in full.
CREATE VIEW named AS
SELECT id, lower(name) AS name, country, sector, website, zipcode, city,
       trim(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
         unaccent(lower(name)),
         '[ .]*(\b|sa|se|sp)(dl|eo|ls|yc|hd|sf|nk|sk|yn|rc|ad|dk|cd|sd|ca|zy|ty|rp|sh|usd|eur|o\.n|on|inh|vzo|spon|sp|s|uns|nam|nom|adr|adrs|gdr|cdi|ord|pref|pfd|sponsored|unsponsored|depositary|class|cl|reg|regs)\b[ .-]*[-,./0-9].*$', ''),
         '\b(s\.?p\.?a|s\.?a\.?b?|s\.?e|b\.?v|n\.?v|a\.?g|a/s|k\.?g\.?a\.?a|a\.?s\.?a?|p\.?l\.?c|l\.?t\.?d|inc|incorporated|corp|corporation|co|company|compagnie|limited|public|ab|oyj|tbk|pt|bhd|berhad|llc|lp|sab de cv|de c\.?v|the|and|o\.n|on|na|nam|nom|inh|reg|adr|adrs|gdr|spon|spons|sponsored|ord|shs|vzo|pref|pfd|(class|cl\.?) ?[a-h]|class|publ|depositary|receipts?|cdi|kk|aktiengesellschaft|societe anonyme|gmbh)\b\.?', ' ', 'g'),
         '\bdt\b', 'deutsche', 'g'), '\bbk\b', 'bank', 'g'),
         '''', '', 'g'), '[^a-z0-9]+', ' ', 'g')) AS core
FROM companies;
CREATE VIEW listings AS
SELECT id, name, country, sector, website, zipcode, city, nullif(core, '') AS core,
       nullif(split_part(core, ' ', 1), '') AS first_word,
       -- a first word of six letters or more that few listings have
       CASE WHEN length(split_part(core, ' ', 1)) >= 6 AND count(*) OVER (PARTITION BY split_part(core, ' ', 1)) <= 20 THEN split_part(core, ' ', 1) END AS rare_word,
       -- each of several words cut to four letters, as exchanges abbreviate; and to three
       CASE WHEN short LIKE '% %' THEN trim(regexp_replace(short, '([a-z0-9]{4})[a-z0-9]*', '\1', 'g')) ELSE short END AS cut_4,
       CASE WHEN short LIKE '% %' THEN trim(regexp_replace(short, '([a-z0-9]{3})[a-z0-9]*', '\1', 'g')) ELSE short END AS cut_3
-- without groups and holdings
FROM (SELECT *, nullif(trim(regexp_replace(core, ' (group|grp|gr|gp|holdings?|hldgs?|hdgs?|[a-h])\b', '', 'g')), '') AS short FROM named);

-- The ten rules.
CREATE MATCHING RULE listed_companies ON a, b AS
  -- 1. the same name and country
  (a.name = b.name AND a.country = b.country)
  -- 2. the same name but for legal form and nominal value, the same sector
  OR (a.core = b.core AND a.sector = b.sector)
  -- 3. the same words cut to four letters, the same country
  OR (a.cut_4 = b.cut_4 AND a.country = b.country AND jaro_winkler_similarity(a.core, b.core) >= 0.85)
  -- 4. the same words cut to three letters, the same country and sector
  OR (a.cut_3 = b.cut_3 AND a.country = b.country AND a.sector = b.sector
      AND jaro_winkler_similarity(a.core, b.core) >= 0.88)
  -- 5. the same country and sector, nearly all of the cut words
  OR (a.country = b.country AND a.sector = b.sector AND jaccard(word_tokens(a.cut_4), word_tokens(b.cut_4)) >= 0.75
      AND jaro_winkler_similarity(a.core, b.core) >= 0.85)
  -- 6. the same country and sector, one name within the other, the same first word
  OR (a.country = b.country AND a.sector = b.sector AND a.first_word = b.first_word
      AND overlap_coefficient(word_tokens(a.cut_3), word_tokens(b.cut_3)) >= 0.99)
  -- 7. the same country and sector, names of the same beginning with few differences
  OR (a.country = b.country AND a.sector = b.sector AND jaro_winkler_similarity(a.core, b.core) >= 0.96)
  -- 8. the same uncommon first word and country, similar words
  OR (a.rare_word = b.rare_word AND a.country = b.country
      AND overlap_coefficient(word_tokens(a.cut_3), word_tokens(b.cut_3)) >= 0.6
      AND jaro_winkler_similarity(a.core, b.core) >= 0.8)
  -- 9. the same website, similar names
  OR (a.website = b.website AND a.country = b.country AND jaro_winkler_similarity(a.core, b.core) >= 0.85)
  -- 10. the same postcode and city, nearly the same words
  OR (a.zipcode = b.zipcode AND a.city = b.city AND jaccard(word_tokens(a.core), word_tokens(b.core)) >= 0.75);

-- How good they are; cssr is pairs over all pairs of different rows.
WITH matches AS (
  SELECT a.id AS id_l, b.id AS id_r
  FROM listings a SIMILARITY JOIN listings b ON match_rule('listed_companies', a, b) AND a.id < b.id
)
SELECT pairs, true_positives,
       round(1.0 * true_positives / truth, 4) AS recall,
       round(1.0 * true_positives / pairs, 4) AS precision,
       round(2.0 * true_positives / (pairs + truth), 4) AS f1,
       pairs / (CAST((SELECT count(*) FROM listings) AS DOUBLE) * ((SELECT count(*) FROM listings) - 1) / 2) AS cssr
FROM (SELECT count(*) AS pairs, count(t.id_l) AS true_positives, (SELECT count(*) FROM truth) AS truth
      FROM matches m LEFT JOIN truth t ON t.id_l = m.id_l AND t.id_r = m.id_r);
