-- A token with every scope keeps every scope.
UPDATE tokens SET scopes = json_insert(scopes, '$[#]', 'approvals:decide') WHERE json_array_length(scopes) = 8;

-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('approvals', 'sqlite_autoindex_approvals_1', '10000 1'),
    ('approvals', 'approvals_call', '10000 2 1'),
    ('approvals', 'approvals_page', '10000 500 1 1'),
    ('approvals', 'approvals_pending', '1000 50 1 1'),
    ('agent_runs', 'agent_runs_for_people', '1000 50');
ANALYZE sqlite_schema;
