-- The final answer of a run as JSON that matches its output schema. NULL: the run has none. The column is text, so
-- that the value stays as the model wrote it, whatever its type.
ALTER TABLE agent_runs ADD COLUMN output text;
