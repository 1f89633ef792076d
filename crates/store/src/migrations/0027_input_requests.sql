-- The external MCP server that asks for input during a tool call. A call can have several such requests.
ALTER TABLE approvals ADD COLUMN server text;
DROP INDEX approvals_call;
CREATE UNIQUE INDEX approvals_call ON approvals (run_id, tool_call_id) WHERE server IS NULL;
CREATE INDEX approvals_run ON approvals (run_id, created_at, id);

-- The sessions and codes of a token, of which only the newest are kept.
CREATE INDEX browser_sessions_token ON browser_sessions (token_id, created_at, id);
CREATE INDEX login_codes_token ON login_codes (token_id, created_at);
