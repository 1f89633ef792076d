-- Products and what they bring: external MCP servers, prompts, secrets, schedules, triggers; and
-- for facts taken out of documents, why a version is what it is and which passage said so.

-- What is installed, as it was installed.
CREATE TABLE installed_products (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    name text NOT NULL,
    version text NOT NULL,
    manifest jsonb NOT NULL,            -- verbatim
    source jsonb NOT NULL,              -- {"kind":"builtin|manifest|url|github","at":"…"}
    revision bigint NOT NULL,           -- +1 with each change: an If-Match for plans
    installed_at timestamptz NOT NULL, updated_at timestamptz NOT NULL,
    author_token uuid
);
CREATE UNIQUE INDEX installed_products_name ON installed_products (project_id, name);

CREATE TABLE project_mcp_servers (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    product text,                       -- null: the project's own
    name text NOT NULL,
    description text NOT NULL,
    transport text NOT NULL,            -- stdio, sse, http
    config jsonb NOT NULL,              -- {command,args,env} | {url,headers}: references to secrets, never values
    tool_filter jsonb NOT NULL,         -- globs, from the manifest; ["*"] for own servers
    pin_policy text NOT NULL,           -- pin, warn, off
    timeout_seconds bigint NOT NULL,
    enabled boolean NOT NULL,
    version bigint NOT NULL,            -- a connection belongs to one version
    listed_at timestamptz,              -- null: never reached
    last_error text,                    -- redacted
    created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX project_mcp_servers_name ON project_mcp_servers (project_id, name);
CREATE INDEX project_mcp_servers_page ON project_mcp_servers (project_id, created_at, id);

-- tools/list as last seen, and what was accepted of it.
CREATE TABLE mcp_server_tools (
    server_id uuid NOT NULL, name text NOT NULL,
    tool text NOT NULL,                 -- as the server sent it, to the letter
    digest text NOT NULL,               -- sha256 of canonical {description,inputSchema,annotations}
    pinned_digest text NOT NULL, pinned_tool text NOT NULL,
    status text NOT NULL,               -- live, changed (held back under `pin`), gone
    first_seen timestamptz NOT NULL, changed_at timestamptz, accepted_by uuid,
    PRIMARY KEY (server_id, name)
);

CREATE TABLE product_prompts (
    project_id uuid NOT NULL, product text NOT NULL, name text NOT NULL, prompt jsonb NOT NULL,
    PRIMARY KEY (project_id, product, name)
);

CREATE TABLE secret_keys (              -- which keys there are; not the keys
    id text NOT NULL PRIMARY KEY,       -- first 16 hex of sha256("emergent key" || key)
    proof bytea NOT NULL,               -- nonce || sealed known text
    created_at timestamptz NOT NULL, retired_at timestamptz
);
CREATE TABLE secrets (
    project_id uuid NOT NULL, name text NOT NULL,
    key_id text NOT NULL, sealed bytea NOT NULL,   -- nonce(12) || ciphertext || tag
    version bigint NOT NULL, created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL,
    author_token uuid,
    PRIMARY KEY (project_id, name)
);

CREATE TABLE schedules (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL, agent_id uuid NOT NULL,
    product text NOT NULL,              -- '' for a definition's own trigger, so that the index below is plain
    name text NOT NULL,                 -- a job's name; `agent:<name>` for a definition's own trigger
    cron text NOT NULL, time_zone text NOT NULL, missed text NOT NULL,  -- once, skip
    config jsonb NOT NULL,              -- {input, context, max_steps, timeout_seconds}
    next_at timestamptz,                -- null: never again (31 February)
    last_at timestamptz, last_run_id uuid,
    created_at timestamptz NOT NULL, updated_at timestamptz NOT NULL
);
CREATE UNIQUE INDEX schedules_name ON schedules (project_id, product, name);
CREATE INDEX schedules_due ON schedules (next_at) WHERE next_at IS NOT NULL;
CREATE INDEX schedules_agent ON schedules (agent_id);

CREATE TABLE event_triggers (
    agent_id uuid NOT NULL PRIMARY KEY, project_id uuid NOT NULL,
    event text NOT NULL,                -- on_document_ingested, …
    config jsonb NOT NULL,              -- EventConfig, checked
    since_txid bigint NOT NULL, since_seq bigint NOT NULL -- what is before this in the feed is not its business
);
CREATE INDEX event_triggers_project ON event_triggers (project_id);

CREATE TABLE trigger_cursors (          -- how far a project's feed was read; also the lock
    project_id uuid NOT NULL PRIMARY KEY, txid bigint NOT NULL, seq bigint NOT NULL
);

-- Every firing, and what became of it.
CREATE TABLE trigger_firings (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL, agent_id uuid NOT NULL,
    schedule_id uuid, scheduled_at timestamptz,
    event text, entity_id uuid, entity_type text, entity_version bigint,
    cause_run_id uuid, cause_depth bigint NOT NULL,
    -- pending, admitted, refused (admission said no), skipped (a rule said no)
    status text NOT NULL, reason text, run_id uuid,
    due_at timestamptz NOT NULL, created_at timestamptz NOT NULL, settled_at timestamptz
);
CREATE UNIQUE INDEX trigger_firings_event ON trigger_firings (agent_id, entity_id, entity_version)
    WHERE entity_id IS NOT NULL;
CREATE UNIQUE INDEX trigger_firings_schedule ON trigger_firings (schedule_id, scheduled_at)
    WHERE schedule_id IS NOT NULL;
CREATE INDEX trigger_firings_due ON trigger_firings (project_id, due_at) WHERE status = 'pending';
CREATE INDEX trigger_firings_page ON trigger_firings (project_id, created_at, id);
CREATE INDEX trigger_firings_settled ON trigger_firings (settled_at) WHERE settled_at IS NOT NULL;

ALTER TABLE agent_runs ADD COLUMN schedule_id uuid;
ALTER TABLE agent_runs ADD COLUMN cause_run_id uuid;
ALTER TABLE agent_runs ADD COLUMN cause_depth bigint NOT NULL DEFAULT 0;
-- Never two live runs of one schedule, whoever errs.
CREATE UNIQUE INDEX agent_runs_schedule ON agent_runs (schedule_id)
    WHERE schedule_id IS NOT NULL AND status IN ('queued', 'running');

ALTER TABLE template_packs ADD COLUMN product text;      -- who brought it
ALTER TABLE projects ADD COLUMN mcp_revision bigint NOT NULL DEFAULT 0;

-- Extraction: why a version is what it is, and which passage said so.
ALTER TABLE graph_objects ADD COLUMN reason text;
ALTER TABLE graph_object_versions ADD COLUMN reason text;
ALTER TABLE graph_relationships ADD COLUMN reason text;
ALTER TABLE graph_relationship_versions ADD COLUMN reason text;
CREATE TABLE graph_sources (
    entity_id uuid NOT NULL, chunk_id uuid NOT NULL,
    kind text NOT NULL,                 -- object, relationship
    project_id uuid NOT NULL, document_id uuid NOT NULL,
    created_at timestamptz NOT NULL, author_run uuid, author_tool_call uuid,
    PRIMARY KEY (entity_id, chunk_id)
);
CREATE INDEX graph_sources_document ON graph_sources (document_id);
CREATE INDEX graph_sources_run ON graph_sources (author_run) WHERE author_run IS NOT NULL;
