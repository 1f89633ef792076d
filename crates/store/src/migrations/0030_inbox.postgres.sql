CREATE OR REPLACE FUNCTION kb.record_approval_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, title,
        tool_name, expires_at, is_overdue, at)
    VALUES (NEW.project_id, 0, 'approval', NEW.id, NEW.agent_name, NEW.status, NEW.kind, NEW.run_id,
        left(coalesce(NEW.question->>'text', NEW.tool_name), 500), NEW.tool_name, NEW.expires_at, NEW.is_overdue,
        clock_timestamp());
    RETURN NULL;
END;
$$;
DROP TRIGGER approvals_event_updated ON approvals;
CREATE TRIGGER approvals_event_updated AFTER UPDATE OF status, is_overdue ON approvals FOR EACH ROW
    WHEN (OLD.status IS DISTINCT FROM NEW.status OR OLD.is_overdue IS DISTINCT FROM NEW.is_overdue)
    EXECUTE FUNCTION kb.record_approval_event();

CREATE FUNCTION kb.record_inbox_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, reason, title, at)
    VALUES (NEW.project_id, 0, 'approval', NEW.id, '', NEW.status, NEW.kind, left(NEW.title, 500), clock_timestamp());
    RETURN NULL;
END;
$$;
CREATE TRIGGER inbox_items_event_inserted AFTER INSERT ON inbox_items
    FOR EACH ROW EXECUTE FUNCTION kb.record_inbox_event();
CREATE TRIGGER inbox_items_event_updated AFTER UPDATE OF status ON inbox_items
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION kb.record_inbox_event();

-- A workflow begins or ceases to need a person.
CREATE FUNCTION kb.change_workflow_inbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status = 'escalated' THEN
        INSERT INTO inbox_items (id, project_id, kind, title, status, created_at)
        VALUES (NEW.id, NEW.project_id, 'escalation', coalesce(NEW.escalation->>'reason', NEW.description), 'pending',
            NEW.updated_at)
        ON CONFLICT (id) DO UPDATE
            SET title = excluded.title, status = 'pending', decision = NULL, created_at = excluded.created_at;
    ELSE
        UPDATE inbox_items SET status =
            CASE WHEN NEW.status <> 'cancelled' OR decision IS NOT NULL THEN 'decided' ELSE 'withdrawn' END
            WHERE id = NEW.id AND status = 'pending';
    END IF;
    RETURN NULL;
END;
$$;
CREATE TRIGGER workflows_inbox AFTER UPDATE OF status ON workflows FOR EACH ROW
    WHEN ((NEW.status = 'escalated') <> (OLD.status = 'escalated')) EXECUTE FUNCTION kb.change_workflow_inbox();

-- A discussion begins or ceases to need a person.
CREATE FUNCTION kb.change_discussion_inbox() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.deleted_at IS NULL AND NEW.properties->>'status' = 'escalated'
        AND NEW.properties->>'decided_by_person' IS NULL THEN
        INSERT INTO inbox_items (id, project_id, kind, title, status, created_at)
        VALUES (NEW.id, NEW.project_id, 'discussion', coalesce(NEW.properties->>'topic', ''), 'pending', NEW.updated_at)
        ON CONFLICT (id) DO UPDATE
            SET title = excluded.title, status = 'pending', decision = NULL, created_at = excluded.created_at
            WHERE inbox_items.status <> 'pending';
    ELSE
        UPDATE inbox_items SET status = CASE WHEN NEW.deleted_at IS NULL AND (NEW.properties->>'status' = 'resolved'
            OR NEW.properties->>'decided_by_person' IS NOT NULL) THEN 'decided' ELSE 'withdrawn' END
            WHERE id = NEW.id AND status = 'pending';
    END IF;
    RETURN NULL;
END;
$$;
CREATE TRIGGER discussions_inbox AFTER INSERT OR UPDATE OF properties, deleted_at ON graph_objects
    FOR EACH ROW
    WHEN (NEW.type = 'Discussion') EXECUTE FUNCTION kb.change_discussion_inbox();
