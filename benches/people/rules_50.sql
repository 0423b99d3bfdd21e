-- Fifty clauses, one a line: the ten of rules_10.sql and forty more over the same and other equalities.
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
a.postcode = b.postcode AND a.surname = b.surname AND levenshtein(a.first_name, b.first_name) <= 1 AND levenshtein(a.street, b.street) <= 3
a.postcode = b.postcode AND a.surname = b.surname AND levenshtein(a.birth_date, b.birth_date) <= 1
a.postcode = b.postcode AND a.surname = b.surname AND jaro_winkler_similarity(a.email, b.email) >= 0.95
a.postcode = b.postcode AND a.surname = b.surname AND levenshtein(a.phone, b.phone) <= 2
a.postcode = b.postcode AND a.birth_year = b.birth_year AND levenshtein(a.surname, b.surname) <= 1 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.8
a.postcode = b.postcode AND a.birth_year = b.birth_year AND jaro_winkler_similarity(a.surname, b.surname) >= 0.85 AND levenshtein(a.street, b.street) <= 2
a.postcode = b.postcode AND a.birth_year = b.birth_year AND levenshtein(a.email, b.email) <= 3
a.postcode = b.postcode AND a.birth_year = b.birth_year AND jaro_winkler_similarity(a.employer, b.employer) >= 0.95 AND levenshtein(a.surname, b.surname) <= 3
a.birth_date = b.birth_date AND jaro_winkler_similarity(a.surname, b.surname) >= 0.95 AND jaro_winkler_similarity(a.city, b.city) >= 0.95
a.birth_date = b.birth_date AND levenshtein(a.phone, b.phone) <= 1
a.birth_date = b.birth_date AND levenshtein(a.street, b.street) <= 1 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.9
a.birth_date = b.birth_date AND jaro_winkler_similarity(a.employer, b.employer) >= 0.97 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.85
a.birth_date = b.birth_date AND levenshtein(a.surname, b.surname) <= 1 AND levenshtein(a.city, b.city) <= 1
a.birth_date = b.birth_date AND a.sex = b.sex AND jaro_winkler_similarity(a.surname, b.surname) >= 0.9 AND jaro_winkler_similarity(a.middle_name, b.middle_name) >= 0.9
a.birth_date = b.birth_date AND a.sex = b.sex AND levenshtein(a.surname, b.surname) <= 3 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.9
a.postcode = b.postcode AND jaro_winkler_similarity(a.surname, b.surname) >= 0.95 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.95 AND jaro_winkler_similarity(a.city, b.city) >= 0.95
a.postcode = b.postcode AND levenshtein(a.birth_date, b.birth_date) <= 1 AND levenshtein(a.surname, b.surname) <= 2
a.postcode = b.postcode AND levenshtein(a.phone, b.phone) <= 1 AND levenshtein(a.first_name, b.first_name) <= 3
a.postcode = b.postcode AND jaro_winkler_similarity(a.employer, b.employer) >= 0.97 AND jaro_winkler_similarity(a.surname, b.surname) >= 0.9
a.postcode = b.postcode AND levenshtein(a.email, b.email) <= 2
a.postcode = b.postcode AND levenshtein(a.street, b.street) <= 1 AND jaro_winkler_similarity(a.surname, b.surname) >= 0.9 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.85
a.phone = b.phone AND levenshtein(a.first_name, b.first_name) <= 2
a.phone = b.phone AND levenshtein(a.email, b.email) <= 4
a.phone = b.phone AND levenshtein(a.birth_date, b.birth_date) <= 2
a.phone = b.phone AND jaro_winkler_similarity(a.employer, b.employer) >= 0.95
a.email = b.email AND jaro_winkler_similarity(a.surname, b.surname) >= 0.9
a.email = b.email AND levenshtein(a.birth_date, b.birth_date) <= 2
a.email = b.email AND levenshtein(a.phone, b.phone) <= 3
a.street = b.street AND a.house_number = b.house_number AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.9 AND levenshtein(a.birth_date, b.birth_date) <= 2
a.street = b.street AND a.house_number = b.house_number AND levenshtein(a.phone, b.phone) <= 2
a.street = b.street AND a.house_number = b.house_number AND jaro_winkler_similarity(a.surname, b.surname) >= 0.9
a.employer = b.employer AND levenshtein(a.birth_date, b.birth_date) <= 1 AND levenshtein(a.surname, b.surname) <= 2
a.employer = b.employer AND levenshtein(a.phone, b.phone) <= 2
a.employer = b.employer AND levenshtein(a.email, b.email) <= 3
a.employer = b.employer AND jaro_winkler_similarity(a.surname, b.surname) >= 0.95 AND levenshtein(a.street, b.street) <= 2
a.employer = b.employer AND a.birth_year = b.birth_year AND jaro_winkler_similarity(a.surname, b.surname) >= 0.85 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.85
a.employer = b.employer AND a.birth_year = b.birth_year AND levenshtein(a.first_name, b.first_name) <= 1 AND levenshtein(a.city, b.city) <= 2
a.street = b.street AND levenshtein(a.surname, b.surname) <= 1 AND jaro_winkler_similarity(a.first_name, b.first_name) >= 0.9
a.street = b.street AND levenshtein(a.birth_date, b.birth_date) <= 1 AND jaro_winkler_similarity(a.surname, b.surname) >= 0.85
a.street = b.street AND levenshtein(a.email, b.email) <= 2
