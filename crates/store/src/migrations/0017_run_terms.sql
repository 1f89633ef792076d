-- What a run was started with and passes on: the model that was asked for, what may be spent, and the runs
-- whose limits apply.
ALTER TABLE agent_runs ADD COLUMN terms jsonb NOT NULL DEFAULT '{}';
-- The runs whose limits a model call counts for: their ids, separated by commas.
ALTER TABLE model_calls ADD COLUMN budget_runs text NOT NULL DEFAULT '';
