-- Since when the new tasks of a project that belong to no workflow are executed by themselves; null: they are
-- not.
ALTER TABLE projects ADD COLUMN auto_dispatch_since timestamptz;
-- Which agents a project chooses for tasks.
ALTER TABLE projects ADD COLUMN coordination jsonb NOT NULL DEFAULT '{}';
-- Whether the workflow takes the new tasks of its project that belong to no workflow.
ALTER TABLE workflows ADD COLUMN standing boolean NOT NULL DEFAULT false;
-- A project has one at a time.
CREATE UNIQUE INDEX workflows_standing ON workflows (project_id) WHERE standing AND status = 'running';
