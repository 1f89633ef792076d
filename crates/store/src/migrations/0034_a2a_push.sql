-- Where clients of A2A want the updates of a task sent. A configuration is a subscription that outlives a connection:
-- it has the position up to which updates were delivered.
CREATE TABLE a2a_push_configs (
    run_id uuid NOT NULL,               -- the task: its first run
    uid uuid NOT NULL,                  -- names the row: in the queue of deliveries, and in what is sealed
    id text NOT NULL,                   -- as the client names it
    project_id uuid NOT NULL,
    token_id uuid NOT NULL,             -- who set it
    url text NOT NULL,
    auth_scheme text,                   -- of the header `Authorization`
    key_id text, sealed bytea,          -- the token and the credentials, if there are any, as secrets are sealed
    followed_run_id uuid,               -- the run whose updates are delivered; none before the first delivery
    after_seq bigint NOT NULL,          -- the last event of that run that was delivered
    created_at timestamptz NOT NULL,
    PRIMARY KEY (run_id, uid)
);
CREATE UNIQUE INDEX a2a_push_configs_id ON a2a_push_configs (run_id, id);
CREATE UNIQUE INDEX a2a_push_configs_uid ON a2a_push_configs (uid);
CREATE INDEX a2a_push_configs_project ON a2a_push_configs (project_id);
