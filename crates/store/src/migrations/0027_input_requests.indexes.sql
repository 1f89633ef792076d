-- Runs that wait with their owner, because a tool call is in progress.
CREATE INDEX IF NOT EXISTS agent_runs_waiting_owner ON agent_runs (owner) WHERE status = 'waiting' AND owner IS NOT NULL;
