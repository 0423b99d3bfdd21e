-- Connected components of random links, on the CPU and on a GPU: similarity-cli -f benches/components.sql
-- Each query of a table is run twice on each engine, and the rows of both engines are the same.
CREATE TABLE links_10 AS
SELECT CAST(random() * 5000000 AS BIGINT) AS a, CAST(random() * 5000000 AS BIGINT) AS b FROM generate_series(1, 10000000);
CREATE TABLE links_100 AS
SELECT CAST(random() * 50000000 AS BIGINT) AS a, CAST(random() * 50000000 AS BIGINT) AS b
FROM generate_series(1, 100000000);
-- over all numbers, so that no two ids lie close together
CREATE TABLE far_10 AS SELECT a * 1844674407370 AS a, b * 1844674407370 AS b FROM links_10;

SET similarity.engine = 'cpu';
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('links_10');
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('links_10');
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('far_10');
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('far_10');
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('links_100');
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('links_100');
-- opened by this query
SET similarity.engine = 'cuda';
SELECT count(*), max(cluster_id) FROM clusters('SELECT value AS a, value + 1 AS b FROM generate_series(1, 10)');
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('links_10');
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('links_10');
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('far_10');
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('far_10');
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('links_100');
SELECT count(*), max(cluster_id), sum(cluster_id % 1000003) FROM clusters('links_100');
EXPLAIN ANALYZE SELECT count(*), max(cluster_id) FROM clusters('links_100');
-- random numbers made in the query
SELECT count(*), max(cluster_id) FROM clusters('SELECT CAST(random() * 50000000 AS BIGINT) AS a,
    CAST(random() * 50000000 AS BIGINT) AS b FROM generate_series(1, 100000000)');
SET similarity.engine = 'cpu';
SELECT count(*), max(cluster_id) FROM clusters('SELECT CAST(random() * 50000000 AS BIGINT) AS a,
    CAST(random() * 50000000 AS BIGINT) AS b FROM generate_series(1, 100000000)');
