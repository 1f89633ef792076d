-- Messages of conversations whose agent remembers: what people wrote is passed on to the extraction, once.

CREATE TABLE chat_memories (
    message_id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    conversation_id uuid NOT NULL,
    -- The run that answers the message.
    run_id uuid NOT NULL,
    -- waiting, queued, stored, skipped
    status text NOT NULL,
    -- Why the message is not extracted.
    reason text,
    -- The message as a document, which starts the extraction.
    document_id uuid,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX chat_memories_document ON chat_memories (document_id) WHERE document_id IS NOT NULL;
CREATE INDEX chat_memories_conversation ON chat_memories (conversation_id, status);
CREATE INDEX chat_memories_project ON chat_memories (project_id);
