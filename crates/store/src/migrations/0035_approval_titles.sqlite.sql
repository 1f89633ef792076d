DROP TRIGGER approvals_event_inserted;
DROP TRIGGER approvals_event_updated;
CREATE TRIGGER approvals_event_inserted AFTER INSERT ON approvals WHEN NEW.kind <> 'client_tool'
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, title,
        tool_name, expires_at, is_overdue, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'approval', NEW.id, NEW.agent_name, NEW.status, NEW.kind, NEW.run_id,
        coalesce(NEW.title, substr(coalesce(NEW.question->>'text', NEW.tool_name), 1, 500)), NEW.tool_name,
        NEW.expires_at, NEW.is_overdue, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
CREATE TRIGGER approvals_event_updated AFTER UPDATE OF status, is_overdue ON approvals
WHEN NEW.kind <> 'client_tool' AND (OLD.status IS NOT NEW.status OR OLD.is_overdue IS NOT NEW.is_overdue)
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, title,
        tool_name, expires_at, is_overdue, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'approval', NEW.id, NEW.agent_name, NEW.status, NEW.kind, NEW.run_id,
        coalesce(NEW.title, substr(coalesce(NEW.question->>'text', NEW.tool_name), 1, 500)), NEW.tool_name,
        NEW.expires_at, NEW.is_overdue, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
