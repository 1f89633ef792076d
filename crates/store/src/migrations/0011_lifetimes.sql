-- `agent_runs_waiting` replaces this index: nothing reads queued runs in the order of all projects any more.
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
