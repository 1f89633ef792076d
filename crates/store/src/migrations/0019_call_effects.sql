-- What a tool call could change when it was made. The tool may be declared otherwise, or be gone, when the record
-- of the run is read again. NULL: the call was recorded before this column existed.
ALTER TABLE agent_run_tool_calls ADD COLUMN effect text;
