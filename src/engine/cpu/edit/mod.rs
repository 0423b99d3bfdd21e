//! Edit-distance and Jaro joins.
