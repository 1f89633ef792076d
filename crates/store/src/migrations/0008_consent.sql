-- What people agreed to: what a product uses, who configured a server, and where secrets may be sent.

-- What was accepted of the product, as JSON; null: it was installed before this was asked.
ALTER TABLE installed_products ADD COLUMN accepted jsonb;

-- The token of one project that configured the server; null: an operator, or before this was recorded.
ALTER TABLE project_mcp_servers ADD COLUMN configured_by uuid;
-- The version that uses its secrets without a binding, because it is older than the bindings.
ALTER TABLE project_mcp_servers ADD COLUMN unbound_version bigint;
UPDATE project_mcp_servers SET unbound_version = version;

-- Who said that a secret may be sent where. It counts if an operator said so, or the token that gave
-- the current value of the secret. The secret need not exist yet.
CREATE TABLE secret_bindings (
    id uuid NOT NULL PRIMARY KEY,
    project_id uuid NOT NULL,
    secret text NOT NULL,
    owner text NOT NULL,                -- product:<name> or server:<id>
    target text NOT NULL,               -- an origin, or a program with its variables and arguments
    allowed_by uuid,                    -- the token of one project; null: an operator
    created_at timestamptz NOT NULL
);
CREATE INDEX secret_bindings_owner ON secret_bindings (project_id, owner, secret);
