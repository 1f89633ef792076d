-- A token with every scope keeps every scope.
UPDATE tokens SET scopes = scopes || '["approvals:decide"]'::jsonb WHERE jsonb_array_length(scopes) = 8;
