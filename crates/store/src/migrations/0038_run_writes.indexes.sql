-- What a run wrote with its tools, to list it and to revert it. Sessions, their messages and their edges name their
-- run as well, but nobody looks for them by it, and they are most of what a task leaves.
CREATE INDEX IF NOT EXISTS graph_objects_written ON graph_objects (author_run) WHERE author_tool_call IS NOT NULL;
CREATE INDEX IF NOT EXISTS graph_object_versions_written ON graph_object_versions (author_run)
    WHERE author_tool_call IS NOT NULL;
CREATE INDEX IF NOT EXISTS graph_relationships_written ON graph_relationships (author_run)
    WHERE author_tool_call IS NOT NULL;
CREATE INDEX IF NOT EXISTS graph_relationship_versions_written ON graph_relationship_versions (author_run)
    WHERE author_tool_call IS NOT NULL;
