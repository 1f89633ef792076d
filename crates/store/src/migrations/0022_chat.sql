-- Conversations of people with agents. Every answer is a run.

CREATE TABLE chat_conversations (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    title text NOT NULL,
    -- NULL: answers are based on what a search finds.
    agent_definition_id uuid,
    agent_name text,
    -- idle, answering, deleted
    status text NOT NULL,
    active_run_id uuid,
    -- How many messages there are; also the seq of the newest one.
    message_count bigint NOT NULL,
    author_token uuid,
    author_run uuid,
    author_tool_call uuid,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz
);
CREATE INDEX chat_conversations_page ON chat_conversations (project_id, created_at, id);

CREATE TABLE chat_messages (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    conversation_id uuid NOT NULL,
    seq bigint NOT NULL,
    -- Several messages may follow the same one: each of them begins a branch.
    parent_id uuid,
    -- user, assistant
    role text NOT NULL,
    content text NOT NULL,
    -- queued, answering, answered; completed, failed, paused, stopped
    status text NOT NULL,
    reason text,
    error_message text,
    run_id uuid,
    -- The id of the answer to a message of a person, also before there is one.
    answer_id uuid,
    retrieval_context jsonb,
    citations jsonb NOT NULL,
    input_tokens bigint,
    output_tokens bigint,
    cost double precision,
    author_token uuid,
    author_run uuid,
    author_tool_call uuid,
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX chat_messages_seq ON chat_messages (conversation_id, seq);
CREATE UNIQUE INDEX chat_messages_run ON chat_messages (run_id, role) WHERE run_id IS NOT NULL;
CREATE UNIQUE INDEX chat_messages_answer ON chat_messages (answer_id) WHERE answer_id IS NOT NULL;
CREATE INDEX chat_messages_queued ON chat_messages (conversation_id, seq) WHERE status = 'queued';
CREATE INDEX chat_messages_project ON chat_messages (project_id);
