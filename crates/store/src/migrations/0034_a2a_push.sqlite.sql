-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('a2a_push_configs', 'sqlite_autoindex_a2a_push_configs_1', '10000 1 1'),
    ('a2a_push_configs', 'a2a_push_configs_id', '10000 1 1'),
    ('a2a_push_configs', 'a2a_push_configs_uid', '10000 1'),
    ('a2a_push_configs', 'a2a_push_configs_project', '10000 1000');
ANALYZE sqlite_schema;
