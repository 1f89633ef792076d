-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('approvals', 'approvals_call', '10000 2 1'),
    ('approvals', 'approvals_run', '10000 2 1 1'),
    ('agent_runs', 'agent_runs_waiting_owner', '100 10'),
    ('browser_sessions', 'browser_sessions_token', '1000 10 1 1'),
    ('login_codes', 'login_codes_token', '1000 3 1');
ANALYZE sqlite_schema;
