-- Finds the object that had a key at an earlier time, although it was renamed or deleted since.
CREATE INDEX IF NOT EXISTS graph_object_versions_key ON graph_object_versions (project_id, type, key, updated_at)
    WHERE key IS NOT NULL AND deleted_at IS NULL;
