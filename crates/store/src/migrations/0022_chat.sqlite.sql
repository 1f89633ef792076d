CREATE TRIGGER chat_conversations_event_inserted AFTER INSERT ON chat_conversations
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'conversation', NEW.id, substr(NEW.title, 1, 120), NEW.status,
        CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;
CREATE TRIGGER chat_conversations_event_updated AFTER UPDATE OF status ON chat_conversations
WHEN OLD.status IS NOT NEW.status
BEGIN
    INSERT INTO project_events (project_id, graph_seq, subject, subject_id, name, status, at)
    VALUES (NEW.project_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'graph_events'), 0),
        'conversation', NEW.id, substr(NEW.title, 1, 120), NEW.status,
        CAST(unixepoch('subsec') * 1000000 AS INTEGER));
END;

-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('chat_conversations', 'sqlite_autoindex_chat_conversations_1', '10000 1'),
    ('chat_conversations', 'chat_conversations_page', '10000 500 1 1'),
    ('chat_messages', 'sqlite_autoindex_chat_messages_1', '200000 1'),
    ('chat_messages', 'chat_messages_seq', '200000 20 1'),
    ('chat_messages', 'chat_messages_run', '200000 2 1'),
    ('chat_messages', 'chat_messages_answer', '100000 1'),
    ('chat_messages', 'chat_messages_queued', '100 2 1'),
    ('chat_messages', 'chat_messages_project', '200000 10000');
ANALYZE sqlite_schema;
