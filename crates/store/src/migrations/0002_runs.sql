-- Agents and their runs.

-- The newest version of each agent, or its tombstone.
CREATE TABLE agent_definitions (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    product text,
    name text NOT NULL,
    description text NOT NULL,
    visibility text NOT NULL,
    flow_type text NOT NULL,
    is_default boolean NOT NULL,
    trigger_on text,
    version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz
);
CREATE UNIQUE INDEX agent_definitions_name ON agent_definitions (project_id, name) WHERE deleted_at IS NULL;
CREATE INDEX agent_definitions_page ON agent_definitions (project_id, created_at, id) WHERE deleted_at IS NULL;

-- Every version whole, the newest included: a run keeps the one it started with.
CREATE TABLE agent_definition_versions (
    agent_id uuid NOT NULL,
    version bigint NOT NULL,
    definition jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    author_token uuid,
    author_run uuid,
    author_tool_call uuid,
    PRIMARY KEY (agent_id, version)
);

CREATE TABLE agent_runs (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    agent_version bigint NOT NULL,
    agent_name text NOT NULL,
    -- queued, running, completed, failed, paused, cancelled
    status text NOT NULL,
    reason text,
    origin text NOT NULL,
    parent_run_id uuid,
    parent_tool_call_id uuid,
    part bigint NOT NULL,
    depth bigint NOT NULL,
    resumed_from uuid,
    model text NOT NULL,
    -- What a run was asked for beyond its definition: temperature and the like.
    model_config jsonb NOT NULL,
    step_count bigint NOT NULL,
    steps_before bigint NOT NULL,
    max_steps bigint,
    timeout_seconds bigint NOT NULL,
    -- The moment its timeout counts from; moved on by the time nobody drove it.
    clock_from timestamptz,
    -- The runner that drives it; whoever writes for it must be that one.
    owner text,
    seq bigint NOT NULL,
    summary text,
    error_message text,
    author_token uuid,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    completed_at timestamptz
);
CREATE INDEX agent_runs_queued ON agent_runs (created_at, id) WHERE status = 'queued';
CREATE INDEX agent_runs_running ON agent_runs (owner) WHERE status = 'running';
CREATE INDEX agent_runs_page ON agent_runs (project_id, created_at, id);
CREATE INDEX agent_runs_agent ON agent_runs (agent_id, created_at, id);
CREATE INDEX agent_runs_parent ON agent_runs (parent_run_id, part) WHERE parent_run_id IS NOT NULL;
-- A paused run is resumed once; its resumption can be resumed in turn.
CREATE UNIQUE INDEX agent_runs_resumed ON agent_runs (resumed_from) WHERE resumed_from IS NOT NULL;

-- The conversation. Results of tools are kept once, with their calls, and what a call was given
-- likewise: an assistant's message holds only the ids of its calls. Messages, calls, results and
-- other events of a run share one count, seq.
CREATE TABLE agent_run_messages (
    run_id uuid NOT NULL,
    seq bigint NOT NULL,
    id uuid NOT NULL,
    -- system, user, assistant
    role text NOT NULL,
    step_number bigint NOT NULL,
    content jsonb NOT NULL,
    input_tokens bigint,
    output_tokens bigint,
    reasoning_tokens bigint,
    cache_read_tokens bigint,
    cache_write_tokens bigint,
    cost double precision,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, seq)
);

CREATE TABLE agent_run_tool_calls (
    run_id uuid NOT NULL,
    seq bigint NOT NULL,
    id uuid NOT NULL,
    message_id uuid NOT NULL,
    tool_name text NOT NULL,
    step_number bigint NOT NULL,
    input jsonb NOT NULL,
    -- pending, running, completed, error
    status text NOT NULL,
    output jsonb,
    result_seq bigint,
    duration_ms bigint,
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- What is told besides: a start, a loop, a limit, a shortening, the end.
CREATE TABLE agent_run_events (
    run_id uuid NOT NULL,
    seq bigint NOT NULL,
    type text NOT NULL,
    data jsonb NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (run_id, seq)
);

-- What a run brought, to undo it; objects and relationships have theirs.
CREATE INDEX documents_run ON documents (author_run) WHERE author_run IS NOT NULL;
