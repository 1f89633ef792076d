CREATE OR REPLACE FUNCTION kb.record_approval_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.kind = 'client_tool' THEN
        RETURN NULL;
    END IF;
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, title,
        tool_name, expires_at, is_overdue, at)
    VALUES (NEW.project_id, 0, 'approval', NEW.id, NEW.agent_name, NEW.status, NEW.kind, NEW.run_id,
        coalesce(NEW.title, left(coalesce(NEW.question->>'text', NEW.tool_name), 500)), NEW.tool_name,
        NEW.expires_at, NEW.is_overdue, clock_timestamp());
    RETURN NULL;
END;
$$;
