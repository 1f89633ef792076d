-- Bindings of secrets are to an address with the headers of its requests now, and no longer to an address alone.

-- The version of the server for which a binding to its address counts, because it was made before. A later version
-- needs a binding to its address and its headers.
ALTER TABLE project_mcp_servers ADD COLUMN address_bound_version bigint;
UPDATE project_mcp_servers SET address_bound_version = version WHERE transport <> 'stdio';
