-- Queries of the history that `onbeat fleet agent --history` writes, for DuckDB 1.1 or newer:
--
--   (echo "SET VARIABLE history = '/var/lib/onbeat-fleet/history';"; cat history.sql) | duckdb
--
-- Counters are cumulative: the difference of neighboring rows is what one minute counted. After a reset, or a start of the
-- node, the counter is smaller, and all of it is new.
CREATE OR REPLACE TEMP VIEW history AS
SELECT *, parse_filename(filename, true) AS node
FROM read_parquet(getvariable('history') || '/date=*/hour=*/*.parquet', hive_partitioning = true, filename = true);

CREATE OR REPLACE TEMP VIEW minutes AS
SELECT node, stream, function, port, number, time,
       CASE WHEN packets >= before.packets THEN packets - before.packets ELSE packets END AS packets,
       CASE WHEN lost >= before.lost THEN lost - before.lost ELSE lost END AS lost
FROM (
    SELECT *, lag({'packets': packets, 'lost': lost}) OVER (PARTITION BY node, stream, function, port, number ORDER BY time) AS before
    FROM history
)
WHERE before IS NOT NULL;

-- The streams with most losses.
SELECT stream, node, sum(packets) AS passed, sum(lost) AS lost
FROM minutes WHERE function = 'recover'
GROUP BY ALL HAVING sum(lost) > 0 ORDER BY lost DESC, stream LIMIT 20;

-- Losses of each node by the hour.
SELECT node, date_trunc('hour', time) AS hour, sum(packets) AS passed, sum(lost) AS lost
FROM minutes WHERE function = 'recover'
GROUP BY ALL ORDER BY node, hour;

-- Availability of each path, in percent of the packets of its stream.
SELECT stream, node, p.port, p.number, sum(p.packets) AS received, sum(r.packets + r.lost) AS expected,
       100.0 * sum(p.packets) / nullif(sum(r.packets + r.lost), 0) AS available
FROM minutes AS p JOIN minutes AS r USING (node, stream, time)
WHERE p.function = 'input' AND r.function = 'recover'
GROUP BY stream, node, p.port, p.number ORDER BY available LIMIT 20;

-- One stream, minute by minute.
SELECT time, node, function, port, packets, lost
FROM minutes WHERE stream = (SELECT min(stream) FROM history) ORDER BY time, node, function, port LIMIT 1000;
