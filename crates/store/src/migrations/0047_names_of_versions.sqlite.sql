-- What the planner should expect, as in the first migration: the primary key is the better index of the versions of an object.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('graph_object_versions', 'graph_object_versions_name', '1000000 4 2');
ANALYZE sqlite_schema;
