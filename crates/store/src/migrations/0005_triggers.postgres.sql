INSERT INTO graph_sources_said
    (entity_id, chunk_id, said_by, kind, project_id, document_id, created_at, author_tool_call)
SELECT entity_id, chunk_id, coalesce(author_run, '00000000-0000-0000-0000-000000000000'), kind, project_id,
    document_id, created_at, author_tool_call
FROM graph_sources;
DROP TABLE graph_sources;
ALTER TABLE graph_sources_said RENAME TO graph_sources;
ALTER INDEX graph_sources_said_pkey RENAME TO graph_sources_pkey;
CREATE INDEX graph_sources_document ON graph_sources (document_id);
CREATE INDEX graph_sources_run ON graph_sources (said_by);
