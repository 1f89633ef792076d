ALTER TABLE project_events ALTER COLUMN txid SET DEFAULT pg_current_xact_id()::text::bigint + feed_offset();

CREATE FUNCTION kb.record_run_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO project_events
        (project_id, graph_seq, subject, subject_id, name, status, reason, parent_id, workflow_id, at)
    VALUES (NEW.project_id, 0, 'run', NEW.id, NEW.agent_name, NEW.status, NEW.reason, NEW.parent_run_id,
        NEW.workflow_id, clock_timestamp());
    RETURN NULL;
END;
$$;
CREATE TRIGGER agent_runs_event_inserted AFTER INSERT ON agent_runs
    FOR EACH ROW EXECUTE FUNCTION kb.record_run_event();
CREATE TRIGGER agent_runs_event_updated AFTER UPDATE OF status ON agent_runs
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION kb.record_run_event();

CREATE FUNCTION kb.record_workflow_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, at)
    VALUES (NEW.project_id, 0, 'workflow', NEW.id, left(NEW.description, 120), NEW.status, clock_timestamp());
    RETURN NULL;
END;
$$;
CREATE TRIGGER workflows_event_inserted AFTER INSERT ON workflows
    FOR EACH ROW EXECUTE FUNCTION kb.record_workflow_event();
CREATE TRIGGER workflows_event_updated AFTER UPDATE OF status ON workflows
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION kb.record_workflow_event();
