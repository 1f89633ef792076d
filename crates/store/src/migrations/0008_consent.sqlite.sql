-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('secret_bindings', 'sqlite_autoindex_secret_bindings_1', '1000 1'),
    ('secret_bindings', 'secret_bindings_owner', '1000 10 2 1');
ANALYZE sqlite_schema;
