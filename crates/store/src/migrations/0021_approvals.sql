-- Tool calls that a person has to approve, and questions of agents.

CREATE TABLE approvals (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    -- approval, question
    kind text NOT NULL,
    run_id uuid NOT NULL,
    tool_call_id uuid NOT NULL,
    agent_id uuid NOT NULL,
    agent_name text NOT NULL,
    tool_name text NOT NULL,
    input jsonb NOT NULL,
    -- The hash of call, tool and input, which a decision is bound to.
    digest text NOT NULL,
    question jsonb,
    -- pending, decided, expired, withdrawn
    status text NOT NULL,
    decision jsonb,
    expires_at timestamptz,
    -- deny, escalate
    on_expiry text NOT NULL,
    is_overdue boolean NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX approvals_call ON approvals (run_id, tool_call_id);
CREATE INDEX approvals_page ON approvals (project_id, created_at, id);
CREATE INDEX approvals_pending ON approvals (project_id, created_at, id) WHERE status = 'pending';

-- A run that waits for a person, itself or through its children. The time since waiting_since does not count
-- towards its timeout; the claim of the run adds it to clock_from.
ALTER TABLE agent_runs ADD COLUMN waiting_for text;
ALTER TABLE agent_runs ADD COLUMN waiting_since timestamptz;
