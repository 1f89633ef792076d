-- One text for both engines. {rowno} is a 64-bit integer primary key; {seqno} one that counts
-- by itself. Types that SQLite does not know are kept as they come: ids as 16 bytes, times as
-- microseconds, JSON as text.

CREATE TABLE projects (
    no {rowno},
    id uuid NOT NULL UNIQUE,
    name text NOT NULL,
    strict boolean NOT NULL,
    packs_revision bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz
);
CREATE UNIQUE INDEX projects_name ON projects (name) WHERE deleted_at IS NULL;

CREATE TABLE tokens (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid,
    name text NOT NULL,
    hash bytea NOT NULL UNIQUE,
    scopes jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    revoked_at timestamptz
);
CREATE INDEX tokens_page ON tokens (created_at, id);

-- The living version of each object, or its tombstone.
CREATE TABLE graph_objects (
    no {rowno},
    id uuid NOT NULL UNIQUE,
    project_id uuid NOT NULL,
    type text NOT NULL,
    key text,
    status text,
    labels jsonb NOT NULL,
    properties jsonb NOT NULL,
    version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    author_token uuid,
    author_run uuid,
    author_tool_call uuid
);
CREATE UNIQUE INDEX graph_objects_key ON graph_objects (project_id, type, key)
    WHERE key IS NOT NULL AND deleted_at IS NULL;
CREATE INDEX graph_objects_page ON graph_objects (project_id, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX graph_objects_type_page ON graph_objects (project_id, type, created_at, id) WHERE deleted_at IS NULL;
CREATE INDEX graph_objects_run ON graph_objects (author_run) WHERE author_run IS NOT NULL;

-- What objects were before: a row moves here when its successor is written, and never changes.
-- It held from updated_at until valid_to.
CREATE TABLE graph_object_versions (
    object_id uuid NOT NULL,
    version bigint NOT NULL,
    project_id uuid NOT NULL,
    type text NOT NULL,
    key text,
    status text,
    labels jsonb NOT NULL,
    properties jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    valid_to timestamptz NOT NULL,
    author_token uuid,
    author_run uuid,
    author_tool_call uuid,
    PRIMARY KEY (object_id, version)
);
CREATE INDEX graph_object_versions_run ON graph_object_versions (author_run) WHERE author_run IS NOT NULL;

CREATE TABLE graph_relationships (
    no {rowno},
    id uuid NOT NULL UNIQUE,
    project_id uuid NOT NULL,
    type text NOT NULL,
    from_id uuid NOT NULL,
    to_id uuid NOT NULL,
    properties jsonb NOT NULL,
    weight double precision,
    version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    deleted_with uuid,
    author_token uuid,
    author_run uuid,
    author_tool_call uuid
);
CREATE UNIQUE INDEX graph_relationships_edge ON graph_relationships (from_id, type, to_id) WHERE deleted_at IS NULL;
CREATE INDEX graph_relationships_to ON graph_relationships (to_id, type, from_id) WHERE deleted_at IS NULL;
CREATE INDEX graph_relationships_page ON graph_relationships (project_id, created_at, id) WHERE deleted_at IS NULL;
-- Edges that went with an object, to come back with it; and walks of the past.
CREATE INDEX graph_relationships_deleted_from ON graph_relationships (from_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX graph_relationships_deleted_to ON graph_relationships (to_id) WHERE deleted_at IS NOT NULL;
CREATE INDEX graph_relationships_run ON graph_relationships (author_run) WHERE author_run IS NOT NULL;

CREATE TABLE graph_relationship_versions (
    relationship_id uuid NOT NULL,
    version bigint NOT NULL,
    project_id uuid NOT NULL,
    type text NOT NULL,
    from_id uuid NOT NULL,
    to_id uuid NOT NULL,
    properties jsonb NOT NULL,
    weight double precision,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    deleted_at timestamptz,
    deleted_with uuid,
    valid_to timestamptz NOT NULL,
    author_token uuid,
    author_run uuid,
    author_tool_call uuid,
    PRIMARY KEY (relationship_id, version)
);
CREATE INDEX graph_relationship_versions_from ON graph_relationship_versions (from_id);
CREATE INDEX graph_relationship_versions_to ON graph_relationship_versions (to_id);
CREATE INDEX graph_relationship_versions_run ON graph_relationship_versions (author_run) WHERE author_run IS NOT NULL;

-- The change feed.
CREATE TABLE graph_events (
    seq {seqno},
    txid bigint NOT NULL {txid},
    project_id uuid NOT NULL,
    kind text NOT NULL,
    entity_id uuid NOT NULL,
    entity_type text NOT NULL,
    version bigint NOT NULL,
    at timestamptz NOT NULL,
    author_token uuid,
    author_run uuid,
    author_tool_call uuid
);

CREATE TABLE template_packs (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid,
    name text NOT NULL,
    version text NOT NULL,
    pack jsonb NOT NULL,
    created_at timestamptz NOT NULL,
    deleted_at timestamptz
);
CREATE UNIQUE INDEX template_packs_version ON template_packs (project_id, name, version)
    WHERE deleted_at IS NULL AND project_id IS NOT NULL;
CREATE UNIQUE INDEX template_packs_builtin ON template_packs (name, version)
    WHERE deleted_at IS NULL AND project_id IS NULL;

CREATE TABLE project_template_packs (
    project_id uuid NOT NULL,
    pack_id uuid NOT NULL,
    assigned_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, pack_id)
);

CREATE TABLE documents (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    title text NOT NULL,
    mime_type text NOT NULL,
    source_url text,
    metadata jsonb NOT NULL,
    content_hash text NOT NULL,
    content text NOT NULL,
    text_bytes bigint NOT NULL,
    chunk_count bigint NOT NULL,
    created_at timestamptz NOT NULL,
    deleted_at timestamptz,
    author_token uuid,
    author_run uuid,
    author_tool_call uuid
);
CREATE UNIQUE INDEX documents_hash ON documents (project_id, content_hash) WHERE deleted_at IS NULL;
CREATE INDEX documents_page ON documents (project_id, created_at, id) WHERE deleted_at IS NULL;

CREATE TABLE document_chunks (
    no {rowno},
    id uuid NOT NULL UNIQUE,
    project_id uuid NOT NULL,
    document_id uuid NOT NULL,
    idx bigint NOT NULL,
    start_offset bigint NOT NULL,
    end_offset bigint NOT NULL,
    tokens bigint NOT NULL,
    heading text,
    text text NOT NULL,
    created_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX document_chunks_place ON document_chunks (document_id, idx);

-- What waits for its vector. kind: 'object' or 'chunk'; no is the row's number there.
CREATE TABLE embedding_queue (
    kind text NOT NULL,
    no bigint NOT NULL,
    project_id uuid NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (kind, no)
);
CREATE INDEX embedding_queue_project ON embedding_queue (project_id);

-- Which versions of rows a model refused: they are not queued again for it.
CREATE TABLE embedding_refusals (
    kind text NOT NULL,
    no bigint NOT NULL,
    model text NOT NULL,
    version bigint NOT NULL,
    PRIMARY KEY (kind, no)
);

-- Which model made a project's vectors, and how long they are.
CREATE TABLE embedding_models (
    project_id uuid NOT NULL PRIMARY KEY,
    model text NOT NULL,
    dims bigint NOT NULL,
    updated_at timestamptz NOT NULL
);

CREATE TABLE jobs (
    id uuid NOT NULL PRIMARY KEY,
    queue text NOT NULL,
    project_id uuid,
    -- Two live jobs of one queue never share a key.
    key text,
    payload jsonb NOT NULL,
    -- queued, running, done, dead
    status text NOT NULL,
    attempts bigint NOT NULL,
    max_attempts bigint NOT NULL,
    run_at timestamptz NOT NULL,
    -- Past this the job is not tried again.
    expires_at timestamptz,
    lease_owner text,
    lease_until timestamptz,
    last_error text,
    created_at timestamptz NOT NULL,
    finished_at timestamptz
);
CREATE INDEX jobs_ready ON jobs (queue, run_at, id) WHERE status = 'queued';
CREATE INDEX jobs_leased ON jobs (queue, lease_until) WHERE status = 'running';
CREATE UNIQUE INDEX jobs_key ON jobs (queue, key) WHERE key IS NOT NULL AND status IN ('queued', 'running');
CREATE INDEX jobs_finished ON jobs (status, finished_at) WHERE finished_at IS NOT NULL;

CREATE TABLE leases (
    name text NOT NULL PRIMARY KEY,
    owner text NOT NULL,
    until timestamptz NOT NULL
);
