-- Lists of an earlier time read tombstones in the order of their pages.
CREATE INDEX IF NOT EXISTS graph_objects_deleted_page ON graph_objects (project_id, created_at, id)
    WHERE deleted_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS graph_relationships_deleted_page ON graph_relationships (project_id, created_at, id)
    WHERE deleted_at IS NOT NULL;
