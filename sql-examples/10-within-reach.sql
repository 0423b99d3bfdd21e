-- Every place as a point on a globe with a radius of 6371 km.
CREATE EXTERNAL TABLE cities STORED AS PARQUET LOCATION 'sql-examples/data/cities.parquet';
CREATE VIEW places AS
SELECT *, [6371 * cos(radians(lat)) * cos(radians(lon)), 6371 * cos(radians(lat)) * sin(radians(lon)), 6371 * sin(radians(lat))] AS p
FROM cities;

-- Places within 1.2 km of each other on two sides of a border.
SELECT a.name, a.cc, b.name AS other, b.cc, round(l2_distance(a.p, b.p), 2) AS km
FROM places a SIMILARITY JOIN places b ON l2_distance(a.p, b.p) <= 1.2 AND a.cc < b.cc
ORDER BY km, a.name;

-- How many places have another one within two kilometres, by country; a self-join looks at each pair once.
SELECT a.cc, count(DISTINCT a.id) AS places, count(*) AS pairs
FROM places a SIMILARITY JOIN places b ON l2_distance(a.p, b.p) <= 2 AND a.id <> b.id
GROUP BY a.cc ORDER BY a.cc;

-- The same question in degrees, which separate columns hold: a square, and an ellipse within it.
SELECT count(*) AS in_the_square, count(*) FILTER (WHERE power((a.lat - b.lat) / 0.018, 2) + power((a.lon - b.lon) / 0.027, 2) <= 1) AS in_the_ellipse
FROM cities a SIMILARITY JOIN cities b
  ON abs(a.lat - b.lat) <= 0.018 AND abs(a.lon - b.lon) <= 0.027 AND a.id < b.id;

-- Places that nobody lives near: none within 15 km.
SELECT name, cc FROM places a
WHERE NOT EXISTS (SELECT 1 FROM places b WHERE l2_distance(a.p, b.p) <= 15 AND a.id <> b.id)
ORDER BY cc, name;
