CREATE TRIGGER audit_log_no_update BEFORE UPDATE ON audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_log_no_delete BEFORE DELETE ON audit_log
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
-- `INSERT OR REPLACE` would delete the row before it inserts another.
CREATE TRIGGER audit_log_no_replace BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM audit_log WHERE id = NEW.id)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

-- What the planner should expect, as in the first migration.
INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('audit_log', 'sqlite_autoindex_audit_log_1', '100000 1'),
    ('audit_log', 'audit_log_page', '100000 1 1'),
    ('audit_log', 'audit_log_project', '100000 5000 1 1');
ANALYZE sqlite_schema;
