INSERT INTO graph_sources_said
    (entity_id, chunk_id, said_by, kind, project_id, document_id, created_at, author_tool_call)
SELECT entity_id, chunk_id, coalesce(author_run, zeroblob(16)), kind, project_id, document_id, created_at,
    author_tool_call
FROM graph_sources;
DROP TABLE graph_sources;
ALTER TABLE graph_sources_said RENAME TO graph_sources;
CREATE INDEX graph_sources_document ON graph_sources (document_id);
CREATE INDEX graph_sources_run ON graph_sources (said_by);

-- What the planner should expect, as in the first migration; what it knew of the table went with it.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('graph_sources', 'sqlite_autoindex_graph_sources_1', '500000 2 1 1'),
    ('graph_sources', 'graph_sources_document', '500000 50'),
    ('graph_sources', 'graph_sources_run', '500000 50');
ANALYZE sqlite_schema;
