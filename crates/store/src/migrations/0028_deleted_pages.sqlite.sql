-- What the planner should expect, as in the first migration.
DELETE FROM sqlite_stat1 WHERE idx IN ('graph_objects_deleted', 'graph_relationships_deleted');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('graph_objects', 'graph_objects_deleted_page', '100000 10000 1 1'),
    ('graph_relationships', 'graph_relationships_deleted_page', '100000 10000 1 1');
ANALYZE sqlite_schema;
