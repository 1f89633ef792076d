-- What a deleted project leaves in these tables is found by its project.
CREATE INDEX IF NOT EXISTS model_calls_project ON model_calls (project_id, id);
CREATE INDEX IF NOT EXISTS jobs_project ON jobs (project_id) WHERE project_id IS NOT NULL;
-- The hidden documents of all projects, the longest due first.
CREATE INDEX IF NOT EXISTS documents_purge ON documents (purge_after) WHERE purge_after IS NOT NULL;
