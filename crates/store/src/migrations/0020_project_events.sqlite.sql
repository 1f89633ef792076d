CREATE TRIGGER agent_runs_event_inserted AFTER INSERT ON agent_runs
BEGIN
    INSERT INTO project_events
        (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, workflow_id, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'run', NEW.id, NEW.agent_name, NEW.status, NEW.reason, NEW.parent_run_id, NEW.workflow_id,
        CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
CREATE TRIGGER agent_runs_event_updated AFTER UPDATE OF status ON agent_runs WHEN OLD.status IS NOT NEW.status
BEGIN
    INSERT INTO project_events
        (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, workflow_id, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'run', NEW.id, NEW.agent_name, NEW.status, NEW.reason, NEW.parent_run_id, NEW.workflow_id,
        CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
CREATE TRIGGER workflows_event_inserted AFTER INSERT ON workflows
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'workflow', NEW.id, substr(NEW.description, 1, 120), NEW.status,
        CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
CREATE TRIGGER workflows_event_updated AFTER UPDATE OF status ON workflows WHEN OLD.status IS NOT NEW.status
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'workflow', NEW.id, substr(NEW.description, 1, 120), NEW.status,
        CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;

-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('project_events', 'project_events_feed', '1000000 50000 50000 1');
ANALYZE sqlite_schema;
