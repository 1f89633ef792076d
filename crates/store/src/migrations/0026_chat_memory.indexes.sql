-- Deleted conversations, in the order in which they are removed.
CREATE INDEX IF NOT EXISTS chat_conversations_deleted ON chat_conversations (deleted_at) WHERE deleted_at IS NOT NULL;
