-- Queued runs by project, so that projects take turns.
CREATE INDEX IF NOT EXISTS agent_runs_waiting ON agent_runs (project_id, created_at, id)
    WHERE status = 'queued';
-- What a deleted project leaves is found by its project, tombstones as well.
CREATE INDEX IF NOT EXISTS graph_objects_deleted ON graph_objects (project_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS graph_relationships_deleted ON graph_relationships (project_id)
    WHERE deleted_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS documents_deleted ON documents (project_id) WHERE deleted_at IS NOT NULL;
