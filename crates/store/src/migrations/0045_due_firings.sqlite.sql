-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('trigger_firings', 'trigger_firings_of_trigger', '100 10 5 1 1'),
    ('trigger_firings', 'trigger_firings_of_object', '100 10 1 1 1'),
    ('trigger_firings', 'trigger_firings_of_event', '100 25 10');
ANALYZE sqlite_schema;
