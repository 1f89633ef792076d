-- The deleted objects that had a key, the last one first. With it, the object that a key named is found without reading the
-- other deleted objects of its project.
CREATE INDEX IF NOT EXISTS graph_objects_deleted_key ON graph_objects (project_id, type, key, deleted_at)
    WHERE deleted_at IS NOT NULL AND key IS NOT NULL;
