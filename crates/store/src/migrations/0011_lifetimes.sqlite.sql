-- What the planner should expect, as in the first migration.
DELETE FROM sqlite_stat1 WHERE idx = 'agent_runs_queued';
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('agent_runs', 'agent_runs_waiting', '1000 100 2 1'),
    ('graph_objects', 'graph_objects_deleted', '100000 10000'),
    ('graph_relationships', 'graph_relationships_deleted', '100000 10000'),
    ('documents', 'documents_deleted', '1000 100');
ANALYZE sqlite_schema;
