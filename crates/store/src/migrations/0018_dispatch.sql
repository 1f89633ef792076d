-- Tasks that a standing workflow could not take, each at the version that it had, and why. A task that changes is
-- tried again.
CREATE TABLE task_refusals (
    task_id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    version bigint NOT NULL,
    reason text NOT NULL,
    at timestamptz NOT NULL
);
CREATE INDEX task_refusals_project ON task_refusals (project_id);

-- What a workflow was started by and passes on to its runs: the trigger, the chain of triggers, the trace.
ALTER TABLE workflows ADD COLUMN origin jsonb NOT NULL DEFAULT '{}';
-- The schedule that started it, which starts no second one meanwhile.
ALTER TABLE workflows ADD COLUMN schedule_id uuid;
CREATE INDEX workflows_schedule ON workflows (schedule_id) WHERE schedule_id IS NOT NULL;

-- The workflow that a trigger starts instead of an agent. Then `agent_id` is an id of the trigger, which no agent has.
ALTER TABLE schedules ADD COLUMN dispatch jsonb;
ALTER TABLE schedules ADD COLUMN last_workflow_id uuid;
ALTER TABLE event_triggers ADD COLUMN dispatch jsonb;
-- The name and the product of a trigger that starts a workflow; null for the trigger of an agent.
ALTER TABLE event_triggers ADD COLUMN name text;
ALTER TABLE event_triggers ADD COLUMN product text;
CREATE UNIQUE INDEX event_triggers_name ON event_triggers (project_id, product, name) WHERE name IS NOT NULL;
ALTER TABLE trigger_firings ADD COLUMN workflow_id uuid;
-- The name of a trigger that starts a workflow.
ALTER TABLE trigger_firings ADD COLUMN trigger_name text;
