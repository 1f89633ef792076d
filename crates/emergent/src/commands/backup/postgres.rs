//! What `backup` and `restore` say about a PostgreSQL database: its own programs copy it.

use std::path::Path;

use emergent_store::db::without_password;

/// The commands that back up a PostgreSQL database. `docs/backup.md` has the same ones, and a test runs them.
pub fn backup_advice(url: &str, file: &Path) -> String {
    format!(
        "this database is PostgreSQL, which has its own programs for backups. While the servers run:\n\n\
         \x20 pg_dump --format=custom --no-owner --schema=kb --file={} '{}'\n\n\
         The key of the secrets is not in the database: keep a copy of EMERGENT_SECRET_KEY, or of the file \
         `secret-key` in the data folder, apart from the backups.",
        file.display(),
        without_password(url)
    )
}

/// The commands that restore a PostgreSQL database.
pub fn restore_advice(url: &str, file: &Path) -> String {
    let url = without_password(url);
    format!(
        "this database is PostgreSQL, which has its own programs for restoring. Into a new, empty database, \
         before a server is started on it:\n\n\
         \x20 psql '{url}' --command='CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public'\n\
         \x20 pg_restore --exit-on-error --single-transaction --no-owner --dbname='{url}' {}\n\n\
         Then start the server with the key of the secrets, as EMERGENT_SECRET_KEY or as the file `secret-key` \
         in its data folder.",
        file.display()
    )
}
