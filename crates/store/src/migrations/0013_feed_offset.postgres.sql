-- The order of the change feed starts with the id of the transaction, and these ids belong to a cluster. In a
-- database that was restored into a younger cluster, new changes would come before the old ones. This number is
-- added to every new id; a server that finds ids from another cluster sets it (feed/cluster.rs).
CREATE FUNCTION feed_offset() RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT CAST(0 AS bigint)';
ALTER TABLE graph_events ALTER COLUMN txid SET DEFAULT pg_current_xact_id()::text::bigint + feed_offset();
