-- Queued runs by project, so that projects take turns. The index over all projects is replaced: nothing
-- reads queued runs in the order of all projects any more.
CREATE INDEX agent_runs_waiting ON agent_runs (project_id, created_at, id) WHERE status = 'queued';
DROP INDEX agent_runs_queued;

-- How many days a project keeps ended runs, changes of its graph, and settled firings; null: for ever.
ALTER TABLE projects ADD COLUMN retention_runs_days bigint;
ALTER TABLE projects ADD COLUMN retention_events_days bigint;
ALTER TABLE projects ADD COLUMN retention_firings_days bigint;
-- What was deleted because of it, in all.
ALTER TABLE projects ADD COLUMN deleted_runs bigint NOT NULL DEFAULT 0;
ALTER TABLE projects ADD COLUMN deleted_events bigint NOT NULL DEFAULT 0;
ALTER TABLE projects ADD COLUMN deleted_firings bigint NOT NULL DEFAULT 0;
-- When the last row of a deleted project was removed. The row of the project stays, without its name, so
-- that its number is not used again.
ALTER TABLE projects ADD COLUMN purged_at timestamptz;

-- What a deleted project leaves is found by its project, tombstones as well.
CREATE INDEX graph_objects_deleted ON graph_objects (project_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX graph_relationships_deleted ON graph_relationships (project_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX documents_deleted ON documents (project_id) WHERE deleted_at IS NOT NULL;
