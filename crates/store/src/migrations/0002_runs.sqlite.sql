-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('agent_definitions', 'sqlite_autoindex_agent_definitions_1', '1000 1'),
    ('agent_definitions', 'agent_definitions_name', '1000 20 1'),
    ('agent_definitions', 'agent_definitions_page', '1000 20 1 1'),
    ('agent_definition_versions', 'sqlite_autoindex_agent_definition_versions_1', '5000 5 1'),
    ('agent_runs', 'sqlite_autoindex_agent_runs_1', '1000000 1'),
    ('agent_runs', 'agent_runs_queued', '100 2 1'),
    ('agent_runs', 'agent_runs_running', '200 100'),
    ('agent_runs', 'agent_runs_page', '1000000 50000 1 1'),
    ('agent_runs', 'agent_runs_agent', '1000000 5000 1 1'),
    ('agent_runs', 'agent_runs_parent', '500000 5 1'),
    ('agent_runs', 'agent_runs_resumed', '10000 1'),
    ('agent_run_messages', 'sqlite_autoindex_agent_run_messages_1', '10000000 20 1'),
    ('agent_run_tool_calls', 'sqlite_autoindex_agent_run_tool_calls_1', '10000000 20 1'),
    ('agent_run_events', 'sqlite_autoindex_agent_run_events_1', '2000000 3 1');
ANALYZE sqlite_schema;
