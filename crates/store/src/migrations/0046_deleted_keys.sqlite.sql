-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('graph_objects', 'graph_objects_deleted_key', '100000 10000 1000 2 1');
ANALYZE sqlite_schema;
