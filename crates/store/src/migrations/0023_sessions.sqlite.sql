-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('browser_sessions', 'sqlite_autoindex_browser_sessions_1', '1000 1'),
    ('browser_sessions', 'sqlite_autoindex_browser_sessions_2', '1000 1'),
    ('browser_sessions', 'browser_sessions_expiry', '1000 1'),
    ('login_codes', 'sqlite_autoindex_login_codes_1', '1000 1'),
    ('login_codes', 'login_codes_expiry', '1000 1'),
    ('idempotency_keys', 'sqlite_autoindex_idempotency_keys_1', '100000 5000 1000 1'),
    ('idempotency_keys', 'idempotency_keys_expiry', '100000 1');
ANALYZE sqlite_schema;
