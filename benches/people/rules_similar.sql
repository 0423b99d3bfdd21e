-- Three clauses without an equality, one a line.
levenshtein(a.email, b.email) <= 2 AND jaro_winkler_similarity(a.surname, b.surname) >= 0.8
jaccard(qgrams(a.email, 3), qgrams(b.email, 3)) >= 0.6 AND levenshtein(a.first_name, b.first_name) <= 2
levenshtein(a.phone, b.phone) <= 1 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.9
