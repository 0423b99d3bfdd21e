-- The nearest places of another country, by the distance on the sphere: points on the unit sphere are near each other where
-- the angle between them is small. Places are named once, by their largest.
CREATE EXTERNAL TABLE cities STORED AS PARQUET LOCATION 'sql-examples/data/cities.parquet';
DESCRIBE cities;
SELECT * FROM cities LIMIT 3;
