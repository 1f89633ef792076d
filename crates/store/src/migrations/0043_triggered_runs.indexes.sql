-- The unfinished runs of event triggers, which a trigger with `max_concurrent` counts before it starts another one.
-- A resumed run counts as well, if a trigger started the first run of its chain.
CREATE INDEX IF NOT EXISTS agent_runs_triggered ON agent_runs (agent_id)
    WHERE origin IN ('event', 'resume') AND status IN ('queued', 'running', 'waiting');
-- The firings that wait, in the order of their events, in which a trigger with `max_concurrent` starts its runs.
CREATE INDEX IF NOT EXISTS trigger_firings_in_order ON trigger_firings (agent_id, event_txid, event_seq, id)
    WHERE status = 'pending';
