-- Which tools of external servers were accepted, and when; and the last contact with a server.

ALTER TABLE project_mcp_servers ADD COLUMN trust boolean NOT NULL DEFAULT false;  -- new tools are accepted as they come
ALTER TABLE project_mcp_servers ADD COLUMN tools_accepted_at timestamptz;         -- null: the next listing is accepted
ALTER TABLE project_mcp_servers ADD COLUMN last_error_at timestamptz;
-- Null: never accepted. Such a tool has the status `changed`, which earlier versions hold back as well.
ALTER TABLE mcp_server_tools ADD COLUMN accepted_at timestamptz;

-- Until now, every tool was accepted when it was first seen.
UPDATE mcp_server_tools SET accepted_at = first_seen;
UPDATE project_mcp_servers SET tools_accepted_at = coalesce(listed_at, updated_at)
    WHERE listed_at IS NOT NULL OR id IN (SELECT server_id FROM mcp_server_tools);
-- Whoever switched pinning off wanted no questions about tools.
UPDATE project_mcp_servers SET trust = true WHERE pin_policy = 'off';
UPDATE project_mcp_servers SET last_error_at = updated_at WHERE last_error IS NOT NULL;
