-- Runs that wait for a person, by project.
CREATE INDEX IF NOT EXISTS agent_runs_for_people ON agent_runs (project_id) WHERE status = 'waiting';
