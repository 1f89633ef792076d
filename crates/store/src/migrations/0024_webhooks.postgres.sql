CREATE FUNCTION kb.record_approval_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO project_events
        (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, at)
    VALUES (NEW.project_id, 0, 'approval', NEW.id, NEW.agent_name, NEW.status, NEW.kind, NEW.run_id,
        clock_timestamp());
    RETURN NULL;
END;
$$;
CREATE TRIGGER approvals_event_inserted AFTER INSERT ON approvals
    FOR EACH ROW EXECUTE FUNCTION kb.record_approval_event();
CREATE TRIGGER approvals_event_updated AFTER UPDATE OF status ON approvals
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION kb.record_approval_event();
