-- The newest vectors of a project, of which a search takes a sample.
CREATE INDEX IF NOT EXISTS graph_embeddings_newest ON graph_embeddings (project_id, no);
CREATE INDEX IF NOT EXISTS chunk_embeddings_newest ON chunk_embeddings (project_id, no);
