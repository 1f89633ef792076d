-- The firings of each trigger that wait, the longest due first. With it, those of one trigger are found without reading
-- the firings of the others of its project, of which many may be held back.
CREATE INDEX IF NOT EXISTS trigger_firings_of_trigger ON trigger_firings (project_id, agent_id, due_at, id)
    WHERE status = 'pending' AND entity_id IS NOT NULL;
-- The firings about each object that wait, the oldest first. With it, those that share a run are found without reading
-- those that are settled, of which an object that changes often has more and more.
CREATE INDEX IF NOT EXISTS trigger_firings_of_object ON trigger_firings (agent_id, entity_id, created_at, id)
    WHERE status = 'pending' AND entity_id IS NOT NULL;
-- The firings of each kind of event that wait. With it, those of one kind are counted up to a limit without reading those
-- of the others.
CREATE INDEX IF NOT EXISTS trigger_firings_of_event ON trigger_firings (event, project_id)
    WHERE status = 'pending' AND entity_id IS NOT NULL;
