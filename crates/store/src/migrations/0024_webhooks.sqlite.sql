CREATE TRIGGER approvals_event_inserted AFTER INSERT ON approvals
BEGIN
    INSERT INTO project_events
        (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'approval', NEW.id, NEW.agent_name, NEW.status, NEW.kind, NEW.run_id,
        CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
CREATE TRIGGER approvals_event_updated AFTER UPDATE OF status ON approvals WHEN OLD.status IS NOT NEW.status
BEGIN
    INSERT INTO project_events
        (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'approval', NEW.id, NEW.agent_name, NEW.status, NEW.kind, NEW.run_id,
        CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
