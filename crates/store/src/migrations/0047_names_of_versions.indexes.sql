-- The names that an object had in earlier versions. With it, the different ones are found without reading every version.
CREATE INDEX IF NOT EXISTS graph_object_versions_name ON graph_object_versions (object_id, (type || '/' || coalesce(key, '')));
