-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('model_calls', 'model_calls_project', '1000000 50000 1'),
    ('jobs', 'jobs_project', '1000 10'),
    ('documents', 'documents_purge', '100 1');
ANALYZE sqlite_schema;
