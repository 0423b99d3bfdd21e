-- A join by a weighted similarity that leaves missing attributes out of the average. Run it in the folder of fake_20000.
SELECT count(*)
FROM 'a.parquet' a SIMILARITY JOIN 'a.parquet' b
  ON weighted_similarity(
    jaro_winkler_similarity(a.first_name, b.first_name), 0.8, 20,
    jaro_winkler_similarity(a.surname, b.surname), 0.8, 25,
    levenshtein_similarity(a.dob, b.dob), 0.8, 25,
    levenshtein_similarity(a.city, b.city), 0.8, 10,
    levenshtein_similarity(a.email, b.email), 0.7, 20,
    'skip') >= 0.8
  AND a.id < b.id;
