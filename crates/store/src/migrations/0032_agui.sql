-- Runs as clients of AG-UI name them. A client gives each request an id, and a run that waited for a person is
-- continued by a request with another id: each row is one part of a run. A row is written by the transaction that
-- starts the run, or that stores the decisions with which it goes on.
CREATE TABLE agui_runs (
    project_id uuid NOT NULL,
    token_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    thread_id text NOT NULL,            -- the `threadId` of the client
    client_run_id text NOT NULL,        -- the `runId` of the client
    run_id uuid NOT NULL,
    after_seq bigint NOT NULL,          -- the part has the events of the run after this one
    ended_seq bigint,                   -- the last event of a part that ended because the run waits for a person
    interrupts jsonb NOT NULL,          -- the ids of the requests that the client was told of at that end
    created_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, token_id, agent_id, thread_id, client_run_id)
);
CREATE INDEX agui_runs_run ON agui_runs (run_id, after_seq);
