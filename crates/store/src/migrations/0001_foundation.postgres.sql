CREATE SEQUENCE graph_objects_no_seq AS bigint OWNED BY graph_objects.no;
CREATE SEQUENCE graph_relationships_no_seq AS bigint OWNED BY graph_relationships.no;
CREATE SEQUENCE document_chunks_no_seq AS bigint OWNED BY document_chunks.no;
CREATE SEQUENCE projects_no_seq AS bigint OWNED BY projects.no;

CREATE INDEX graph_events_feed ON graph_events (project_id, txid, seq);

CREATE TABLE graph_objects_fts (
    no bigint PRIMARY KEY,
    project_id uuid NOT NULL,
    tsv tsvector NOT NULL
);
CREATE INDEX graph_objects_fts_tsv ON graph_objects_fts USING gin (tsv);
CREATE TABLE document_chunks_fts (
    no bigint PRIMARY KEY,
    project_id uuid NOT NULL,
    tsv tsvector NOT NULL
);
CREATE INDEX document_chunks_fts_tsv ON document_chunks_fts USING gin (tsv);

CREATE TABLE graph_embeddings (
    no bigint PRIMARY KEY,
    project_id uuid NOT NULL,
    model text NOT NULL,
    version bigint NOT NULL,
    vector vector NOT NULL
);
CREATE INDEX graph_embeddings_project ON graph_embeddings (project_id);
CREATE TABLE chunk_embeddings (
    no bigint PRIMARY KEY,
    project_id uuid NOT NULL,
    model text NOT NULL,
    version bigint NOT NULL,
    vector vector NOT NULL
);
CREATE INDEX chunk_embeddings_project ON chunk_embeddings (project_id);
