-- Calls of runs to tools of their callers, which are found by the id of the call.
CREATE INDEX IF NOT EXISTS approvals_client_call ON approvals (project_id, tool_call_id) WHERE kind = 'client_tool';
