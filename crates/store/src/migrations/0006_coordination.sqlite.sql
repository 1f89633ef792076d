-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('workflows', 'sqlite_autoindex_workflows_1', '10000 1'),
    ('workflows', 'workflows_page', '10000 500 1 1'),
    ('workflows', 'workflows_run', '1000 1'),
    ('workflows', 'workflows_live', '50 2'),
    ('workflow_events', 'sqlite_autoindex_workflow_events_1', '1000000 100 1'),
    ('graph_objects', 'graph_objects_tasks', '100000 5000 50 10'),
    ('graph_objects', 'graph_objects_tasks_page', '100000 5000 1000 1 1'),
    ('agent_runs', 'agent_runs_workflow', '500000 50 1 1'),
    ('agent_runs', 'agent_runs_turn', '50000 5 1'),
    ('budget_limits', 'sqlite_autoindex_budget_limits_1', '100 5 1'),
    ('budget_counters', 'sqlite_autoindex_budget_counters_1', '10000 500 1'),
    ('model_calls', 'sqlite_autoindex_model_calls_1', '1000000 1'),
    ('model_calls', 'model_calls_workflow', '1000000 100'),
    ('model_calls', 'model_calls_open', '200 1');
ANALYZE sqlite_schema;
