-- Where a project sends notices of its inbox, and the name of the secret that signs them: both, or neither.
ALTER TABLE projects ADD COLUMN webhook_url text;
ALTER TABLE projects ADD COLUMN webhook_secret text;
-- One row if the server sends notices of all projects to an address of its settings.
CREATE TABLE server_webhook (
    id bigint NOT NULL PRIMARY KEY,
    updated_at timestamptz NOT NULL
);
