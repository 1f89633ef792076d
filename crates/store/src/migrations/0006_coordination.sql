-- Workflows: graphs of tasks being walked. The tasks themselves are objects of the graph.
CREATE TABLE workflows (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    description text NOT NULL,
    -- planning, running, completed, failed, escalated, cancelled
    status text NOT NULL,
    settings jsonb NOT NULL,
    escalation jsonb,
    summary text,
    planner_run_id uuid,
    plan_attempts bigint NOT NULL,
    -- The dispatcher that walks it; whoever decides for it must be that one.
    owner text,
    lease_until timestamptz,
    -- Counts every change of its tasks and of the edges between them.
    revision bigint NOT NULL,
    event_seq bigint NOT NULL,
    author_token uuid,
    author_run uuid,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    completed_at timestamptz
);
CREATE INDEX workflows_page ON workflows (project_id, created_at, id);
CREATE INDEX workflows_run ON workflows (author_run) WHERE author_run IS NOT NULL;
CREATE INDEX workflows_live ON workflows (lease_until) WHERE status IN ('planning', 'running');

CREATE TABLE workflow_events (
    workflow_id uuid NOT NULL,
    seq bigint NOT NULL,
    type text NOT NULL,
    task_id uuid,
    run_id uuid,
    data jsonb NOT NULL,
    at timestamptz NOT NULL,
    PRIMARY KEY (workflow_id, seq)
);

-- Tasks by workflow and status, so that what can start is found without looking at what cannot.
CREATE INDEX graph_objects_tasks ON graph_objects
    (project_id, (properties->>'workflow_id'), (properties->>'status'))
    WHERE type = 'SpecTask' AND deleted_at IS NULL;
-- The same for all workflows of a project, newest first.
CREATE INDEX graph_objects_tasks_page ON graph_objects (project_id, (properties->>'status'), created_at, id)
    WHERE type = 'SpecTask' AND deleted_at IS NULL;

ALTER TABLE agent_runs ADD COLUMN workflow_id uuid;
ALTER TABLE agent_runs ADD COLUMN task_id uuid;
ALTER TABLE agent_runs ADD COLUMN session_id uuid;
ALTER TABLE agent_runs ADD COLUMN discussion_id uuid;
-- What it has to hand in: test_verdict, review_verdict, vote.
ALTER TABLE agent_runs ADD COLUMN hands text;
CREATE INDEX agent_runs_workflow ON agent_runs (workflow_id, created_at, id) WHERE workflow_id IS NOT NULL;
-- A turn in a discussion is taken once.
CREATE UNIQUE INDEX agent_runs_turn ON agent_runs (discussion_id, part) WHERE discussion_id IS NOT NULL;

-- What may be spent in a day (UTC) by a project, or by one of its agents.
CREATE TABLE budget_limits (
    project_id uuid NOT NULL,
    -- '' is the project itself
    agent text NOT NULL,
    microusd bigint,
    tokens bigint,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, agent)
);

-- How much of a limit is used: of a workflow, of a project's or an agent's day. Only where there
-- is a limit.
CREATE TABLE budget_counters (
    project_id uuid NOT NULL,
    -- workflow:<id>, day:<days since 1970>, day:<days>:<agent>
    name text NOT NULL,
    spent_microusd bigint NOT NULL,
    spent_tokens bigint NOT NULL,
    reserved_microusd bigint NOT NULL,
    reserved_tokens bigint NOT NULL,
    PRIMARY KEY (project_id, name)
);

-- One row for each model call within a workflow or under a limit.
CREATE TABLE model_calls (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    workflow_id uuid,
    task_id uuid,
    agent text NOT NULL,
    run_id uuid,
    day bigint NOT NULL,
    -- reserved, settled, or lost: its answer never came to be recorded, and it counts in full
    status text NOT NULL,
    reserved_microusd bigint NOT NULL,
    reserved_tokens bigint NOT NULL,
    microusd bigint NOT NULL,
    tokens bigint NOT NULL,
    -- Whether the price was known.
    priced boolean NOT NULL,
    -- The counters it is in: 1 its workflow's, 2 its project's day, 4 its agent's day.
    counted bigint NOT NULL,
    at timestamptz NOT NULL
);
CREATE INDEX model_calls_workflow ON model_calls (workflow_id) WHERE workflow_id IS NOT NULL;
CREATE INDEX model_calls_open ON model_calls (run_id) WHERE status = 'reserved';
