-- Bindings of secrets are to an address with its path now, and no longer to an origin.

-- The version of the server for which a binding to the origin of its address counts, because it was made
-- before. A later version needs a binding to its address.
ALTER TABLE project_mcp_servers ADD COLUMN origin_bound_version bigint;
UPDATE project_mcp_servers SET origin_bound_version = version WHERE transport <> 'stdio';
