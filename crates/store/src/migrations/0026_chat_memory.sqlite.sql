-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('chat_conversations', 'chat_conversations_deleted', '1000 1'),
    ('chat_memories', 'sqlite_autoindex_chat_memories_1', '100000 1'),
    ('chat_memories', 'chat_memories_document', '100000 1'),
    ('chat_memories', 'chat_memories_conversation', '100000 20 10'),
    ('chat_memories', 'chat_memories_project', '100000 5000');
ANALYZE sqlite_schema;
