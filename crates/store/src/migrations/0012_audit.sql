-- Who changed what decides about access, money and programs. Rows are added and never changed: triggers
-- refuse it. A row outlives its project and its token, so nothing refers to them.
CREATE TABLE audit_log (
    id uuid NOT NULL PRIMARY KEY,
    created_at timestamptz NOT NULL,
    project_id uuid,                    -- null: concerns no single project
    token_id uuid, token_name text,     -- null: the server itself
    run_id uuid,                        -- the run, if an agent did it
    address text,                       -- null: a command on the data folder
    action text NOT NULL,               -- token.create, secret.put, …
    target_kind text NOT NULL, target_id text NOT NULL, target_name text NOT NULL,
    outcome text NOT NULL,
    details jsonb NOT NULL              -- never a secret value
);
CREATE INDEX audit_log_page ON audit_log (created_at, id);
CREATE INDEX audit_log_project ON audit_log (project_id, created_at, id);
