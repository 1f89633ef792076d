-- What the planner should expect, as in the first migration.
DELETE FROM sqlite_stat1 WHERE idx IN
    ('graph_objects_run', 'graph_object_versions_run', 'graph_relationships_run', 'graph_relationship_versions_run');
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('graph_objects', 'graph_objects_written', '100000 20'),
    ('graph_object_versions', 'graph_object_versions_written', '100000 20'),
    ('graph_relationships', 'graph_relationships_written', '100000 20'),
    ('graph_relationship_versions', 'graph_relationship_versions_written', '100000 20');
ANALYZE sqlite_schema;
