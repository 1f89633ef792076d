-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('graph_object_versions', 'graph_object_versions_key', '1000000 100000 20000 3 1');
ANALYZE sqlite_schema;
