CREATE FUNCTION kb.record_conversation_event() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, at)
    VALUES (NEW.project_id, 0, 'conversation', NEW.id, left(NEW.title, 120), NEW.status, clock_timestamp());
    RETURN NULL;
END;
$$;
CREATE TRIGGER chat_conversations_event_inserted AFTER INSERT ON chat_conversations
    FOR EACH ROW EXECUTE FUNCTION kb.record_conversation_event();
CREATE TRIGGER chat_conversations_event_updated AFTER UPDATE OF status ON chat_conversations
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status) EXECUTE FUNCTION kb.record_conversation_event();
