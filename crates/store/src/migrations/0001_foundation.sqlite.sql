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
