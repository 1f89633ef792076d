DROP TRIGGER approvals_event_inserted;
DROP TRIGGER approvals_event_updated;
CREATE TRIGGER approvals_event_inserted AFTER INSERT ON approvals
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, title,
        tool_name, expires_at, is_overdue, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'approval', NEW.id, NEW.agent_name, NEW.status, NEW.kind, NEW.run_id,
        substr(coalesce(NEW.question->>'text', NEW.tool_name), 1, 500), NEW.tool_name, NEW.expires_at,
        NEW.is_overdue, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
CREATE TRIGGER approvals_event_updated AFTER UPDATE OF status, is_overdue ON approvals
WHEN OLD.status IS NOT NEW.status OR OLD.is_overdue IS NOT NEW.is_overdue
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, title,
        tool_name, expires_at, is_overdue, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'approval', NEW.id, NEW.agent_name, NEW.status, NEW.kind, NEW.run_id,
        substr(coalesce(NEW.question->>'text', NEW.tool_name), 1, 500), NEW.tool_name, NEW.expires_at,
        NEW.is_overdue, CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;

CREATE TRIGGER inbox_items_event_inserted AFTER INSERT ON inbox_items
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, reason, title, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'approval', NEW.id, '', NEW.status, NEW.kind, substr(NEW.title, 1, 500),
        CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
CREATE TRIGGER inbox_items_event_updated AFTER UPDATE OF status ON inbox_items WHEN OLD.status IS NOT NEW.status
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, reason, title, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'approval', NEW.id, '', NEW.status, NEW.kind, substr(NEW.title, 1, 500),
        CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;

-- A workflow begins or ceases to need a person.
CREATE TRIGGER workflows_inbox_opened AFTER UPDATE OF status ON workflows
WHEN NEW.status = 'escalated' AND OLD.status <> 'escalated'
BEGIN
    INSERT INTO inbox_items (id, project_id, kind, title, status, created_at)
    VALUES (NEW.id, NEW.project_id, 'escalation', coalesce(NEW.escalation->>'reason', NEW.description), 'pending',
        NEW.updated_at)
    ON CONFLICT (id) DO UPDATE
        SET title = excluded.title, status = 'pending', decision = NULL, created_at = excluded.created_at;
END;
CREATE TRIGGER workflows_inbox_ended AFTER UPDATE OF status ON workflows
WHEN OLD.status = 'escalated' AND NEW.status <> 'escalated'
BEGIN
    UPDATE inbox_items
        SET status = CASE WHEN NEW.status <> 'cancelled' OR decision IS NOT NULL THEN 'decided' ELSE 'withdrawn' END
        WHERE id = NEW.id AND status = 'pending';
END;

-- A discussion begins or ceases to need a person.
CREATE TRIGGER discussions_inbox_inserted AFTER INSERT ON graph_objects
WHEN NEW.type = 'Discussion' AND NEW.deleted_at IS NULL AND NEW.properties->>'status' = 'escalated'
    AND NEW.properties->>'decided_by_person' IS NULL
BEGIN
    INSERT INTO inbox_items (id, project_id, kind, title, status, created_at)
    VALUES (NEW.id, NEW.project_id, 'discussion', coalesce(NEW.properties->>'topic', ''), 'pending', NEW.updated_at);
END;
CREATE TRIGGER discussions_inbox_updated AFTER UPDATE OF properties, deleted_at ON graph_objects
WHEN NEW.type = 'Discussion'
BEGIN
    INSERT INTO inbox_items (id, project_id, kind, title, status, created_at)
        SELECT NEW.id, NEW.project_id, 'discussion', coalesce(NEW.properties->>'topic', ''), 'pending', NEW.updated_at
        WHERE NEW.deleted_at IS NULL AND NEW.properties->>'status' = 'escalated'
            AND NEW.properties->>'decided_by_person' IS NULL
            AND NOT EXISTS (SELECT 1 FROM inbox_items WHERE id = NEW.id AND status = 'pending')
    ON CONFLICT (id) DO UPDATE
        SET title = excluded.title, status = 'pending', decision = NULL, created_at = excluded.created_at;
    UPDATE inbox_items
        SET status = CASE WHEN NEW.deleted_at IS NULL AND (NEW.properties->>'status' = 'resolved'
            OR NEW.properties->>'decided_by_person' IS NOT NULL) THEN 'decided' ELSE 'withdrawn' END
        WHERE id = NEW.id AND status = 'pending' AND (NEW.deleted_at IS NOT NULL
            OR NEW.properties->>'status' IS NOT 'escalated' OR NEW.properties->>'decided_by_person' IS NOT NULL);
END;

-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('inbox_items', 'sqlite_autoindex_inbox_items_1', '1000 1'),
    ('inbox_items', 'inbox_items_page', '1000 50 1 1');
ANALYZE sqlite_schema;
