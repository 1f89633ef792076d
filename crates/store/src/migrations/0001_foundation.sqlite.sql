-- The index holds no copy of the text. Numbers of one project lie together (the project's number
-- is in their upper bits), so that a search in one project never walks another's matches.
CREATE VIRTUAL TABLE graph_objects_fts USING fts5(
    name, body, content='', contentless_delete=1, tokenize="porter unicode61 remove_diacritics 2"
);
CREATE VIRTUAL TABLE document_chunks_fts USING fts5(
    name, body, content='', contentless_delete=1, tokenize="porter unicode61 remove_diacritics 2"
);

CREATE TABLE graph_embeddings (
    no INTEGER PRIMARY KEY,
    project_id uuid NOT NULL,
    model text NOT NULL,
    version bigint NOT NULL,
    vector bytea NOT NULL
);
CREATE TABLE chunk_embeddings (
    no INTEGER PRIMARY KEY,
    project_id uuid NOT NULL,
    model text NOT NULL,
    version bigint NOT NULL,
    vector bytea NOT NULL
);

-- What the planner should expect. Without this it takes any `project_id = ?` for a handful of rows
-- and walks a whole project where a list of ids would have been looked up. The numbers are those
-- of a middling server: rows, then rows per distinct prefix of the index.
ANALYZE;
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('graph_objects', 'sqlite_autoindex_graph_objects_1', '1000000 1'),
    ('graph_objects', 'graph_objects_key', '1000000 100000 20000 1'),
    ('graph_objects', 'graph_objects_page', '1000000 100000 1 1'),
    ('graph_objects', 'graph_objects_type_page', '1000000 100000 20000 1 1'),
    ('graph_objects', 'graph_objects_run', '100000 20'),
    ('graph_object_versions', 'sqlite_autoindex_graph_object_versions_1', '1000000 3 1'),
    ('graph_object_versions', 'graph_object_versions_run', '100000 20'),
    ('graph_relationships', 'sqlite_autoindex_graph_relationships_1', '4000000 1'),
    ('graph_relationships', 'graph_relationships_edge', '4000000 5 3 1'),
    ('graph_relationships', 'graph_relationships_to', '4000000 5 3 1'),
    ('graph_relationships', 'graph_relationships_page', '4000000 400000 1 1'),
    ('graph_relationships', 'graph_relationships_deleted_from', '100000 2'),
    ('graph_relationships', 'graph_relationships_deleted_to', '100000 2'),
    ('graph_relationships', 'graph_relationships_run', '100000 20'),
    ('graph_relationship_versions', 'sqlite_autoindex_graph_relationship_versions_1', '100000 2 1'),
    ('graph_relationship_versions', 'graph_relationship_versions_from', '100000 5'),
    ('graph_relationship_versions', 'graph_relationship_versions_to', '100000 5'),
    ('graph_relationship_versions', 'graph_relationship_versions_run', '100000 20'),
    ('documents', 'sqlite_autoindex_documents_1', '10000 1'),
    ('documents', 'documents_hash', '10000 1000 1'),
    ('documents', 'documents_page', '10000 1000 1 1'),
    ('document_chunks', 'sqlite_autoindex_document_chunks_1', '200000 1'),
    ('document_chunks', 'document_chunks_place', '200000 20 1'),
    ('embedding_queue', 'sqlite_autoindex_embedding_queue_1', '100000 50000 1'),
    ('embedding_queue', 'embedding_queue_project', '100000 10000');
ANALYZE sqlite_schema;
