-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('agent_runs', 'agent_runs_triggered', '100 10'),
    ('trigger_firings', 'trigger_firings_in_order', '100 10 1 1 1');
ANALYZE sqlite_schema;
