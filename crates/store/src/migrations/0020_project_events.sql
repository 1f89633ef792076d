-- What happens in a project beside changes of its graph: a row for each new status of a run or a workflow.
-- Triggers write the rows, so that no transaction can change a status without telling of it.
CREATE TABLE project_events (
    seq {seqno},
    txid bigint NOT NULL {txid},
    project_id uuid NOT NULL,
    -- On SQLite, the newest sequence number of the change feed when this row was written: the event comes after
    -- that change and before the next one. PostgreSQL orders both tables by the transaction.
    graph_seq bigint NOT NULL,
    subject text NOT NULL,              -- run, workflow
    subject_id uuid NOT NULL,
    name text NOT NULL,                 -- the agent of a run, the start of a workflow's description
    status text NOT NULL,
    reason text,
    parent_id uuid,                     -- the parent of a run
    workflow_id uuid,                   -- the workflow of a run
    at timestamptz NOT NULL
);
CREATE INDEX project_events_feed ON project_events (project_id, txid, seq);
-- The last events that were deleted. A reader that asks for events after an older position has missed some.
CREATE TABLE project_events_end (txid bigint NOT NULL, seq bigint NOT NULL);
INSERT INTO project_events_end (txid, seq) VALUES (0, 0);
