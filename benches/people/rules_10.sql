-- Ten clauses, one a line, of a self-join of people (a and b): the OR of them is the rule. SQL that DuckDB shares.
a.postcode = b.postcode AND a.surname = b.surname AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.85
a.postcode = b.postcode AND a.birth_year = b.birth_year AND jaro_winkler_similarity(a.surname, b.surname) >= 0.9 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.9
a.birth_date = b.birth_date AND levenshtein(a.surname, b.surname) <= 2 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.8
a.postcode = b.postcode AND levenshtein(a.surname, b.surname) <= 2 AND levenshtein(a.first_name, b.first_name) <= 2 AND levenshtein(a.street, b.street) <= 2
a.phone = b.phone AND jaro_winkler_similarity(a.surname, b.surname) >= 0.8
a.email = b.email AND a.sex = b.sex AND levenshtein(a.first_name, b.first_name) <= 3
a.street = b.street AND a.house_number = b.house_number AND levenshtein(a.surname, b.surname) <= 3
a.employer = b.employer AND jaro_winkler_similarity(a.surname, b.surname) >= 0.9 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.9
a.birth_date = b.birth_date AND jaro_winkler_similarity(a.email, b.email) >= 0.95
a.postcode = b.postcode AND a.birth_year = b.birth_year AND levenshtein(a.phone, b.phone) <= 2
