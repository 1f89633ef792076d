-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('agui_runs', 'sqlite_autoindex_agui_runs_1', '100000 20000 5000 2000 5 1'),
    ('agui_runs', 'agui_runs_run', '100000 2 1');
ANALYZE sqlite_schema;
