-- Every place as a point on a globe with a radius of 6371 km.
CREATE EXTERNAL TABLE cities STORED AS PARQUET LOCATION 'sql-examples/data/cities.parquet';
CREATE VIEW places AS
SELECT *, [6371 * cos(radians(lat)) * cos(radians(lon)), 6371 * cos(radians(lat)) * sin(radians(lon)), 6371 * sin(radians(lat))] AS p
FROM cities;

-- The three places nearest to each of three cities, through the globe rather than along it.
SELECT a.name, b.name AS nearest, round(l2_distance(a.p, b.p), 1) AS km
FROM places a JOIN places b NEAREST 3 BY DISTANCE l2_distance(a.p, b.p) ON a.id <> b.id
WHERE a.name IN ('Basel', 'Innsbruck', 'Vienna')
ORDER BY a.name, km;

-- The German place nearest to each Swiss one: ON says which rows are ranked, WHERE which of the results come out.
SELECT a.name, b.name AS nearest, round(l2_distance(a.p, b.p), 1) AS km
FROM places a JOIN places b NEAREST 1 BY DISTANCE l2_distance(a.p, b.p) ON b.cc = 'DE'
WHERE a.cc = 'CH' AND a.name <> b.name
ORDER BY km, a.name LIMIT 5;

-- Within the same region; the longest name first where distances tie.
SELECT a.name, b.name AS nearest, round(l2_distance(a.p, b.p), 1) AS km
FROM places a LEFT JOIN places b
  NEAREST 1 BY DISTANCE l2_distance(a.p, b.p) THEN BY length(b.name) DESC, b.id ON a.admin1 = b.admin1 AND a.id <> b.id
WHERE a.name IN ('Basel', 'Innsbruck', 'Vienna')
ORDER BY a.name;
