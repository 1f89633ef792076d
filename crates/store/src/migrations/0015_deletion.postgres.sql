-- The highest transaction id of the changes that were deleted from the feed. In a database that is restored into
-- a younger cluster, followers have stored positions up to it (feed/cluster.rs).
CREATE TABLE feed_end (txid bigint NOT NULL);
INSERT INTO feed_end (txid) VALUES (0);
