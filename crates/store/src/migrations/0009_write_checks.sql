-- One row that a health check updates, to find out whether the database can be written.
CREATE TABLE write_checks (
    id          smallint    NOT NULL PRIMARY KEY,
    checked_at  timestamptz NOT NULL
);
