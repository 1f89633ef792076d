-- Logins of browsers. A session stands for a token: it ends with it. Only hashes of the secrets are stored.
CREATE TABLE browser_sessions (
    id uuid NOT NULL PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    token_id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX browser_sessions_expiry ON browser_sessions (expires_at);

-- Codes with which a browser logs in once.
CREATE TABLE login_codes (
    hash bytea NOT NULL PRIMARY KEY,
    token_id uuid NOT NULL,
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    used_at timestamptz
);
CREATE INDEX login_codes_expiry ON login_codes (expires_at);

-- Keys that clients gave to requests that start work. A row is written by the transaction that accepts the work.
CREATE TABLE idempotency_keys (
    project_id uuid NOT NULL,
    token_id uuid NOT NULL,
    key text NOT NULL,
    digest bytea NOT NULL,              -- the hash of method, path and body
    work_kind text, work_id uuid,       -- run, workflow: what was accepted
    status bigint, body text,           -- the answer to the request
    created_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (project_id, token_id, key)
);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at);

ALTER TABLE audit_log ADD COLUMN session_id uuid;    -- the browser's session, if it was one
