//! What `backup` and `restore` say about a PostgreSQL database: its own programs copy it.

use std::path::Path;

use emergent_store::db::without_password;

/// The superuser of most installations of PostgreSQL.
const SUPERUSER: &str = "postgres";

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
    let superuser = as_superuser(&without_password(url));
    let url = without_password(url);
    format!(
        "this database is PostgreSQL, which has its own programs for restoring. Into a new, empty database, \
         before a server is started on it. A superuser of PostgreSQL creates the extension:\n\n\
         \x20 psql '{superuser}' --command='CREATE EXTENSION IF NOT EXISTS vector WITH SCHEMA public'\n\n\
         The owner of the database restores:\n\n\
         \x20 pg_restore --exit-on-error --single-transaction --no-owner --dbname='{url}' {}\n\n\
         Then start the server with the key of the secrets, as EMERGENT_SECRET_KEY or as the file `secret-key` \
         in its data folder.",
        file.display()
    )
}

/// The URL with the user `postgres`, the superuser of most installations: only a superuser may create the extension.
/// What is no URL with a user stays as it is.
fn as_superuser(url: &str) -> String {
    let Ok(mut parsed) = reqwest::Url::parse(url) else { return url.to_owned() };
    if parsed.username().is_empty() || parsed.set_username(SUPERUSER).is_err() {
        return url.to_owned();
    }
    parsed.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_superuser_creates_the_extension_and_the_owner_restores() {
        let advice =
            restore_advice("postgres://emergent:pw@db:6000/restored?sslmode=require", Path::new("a.dump"));
        assert!(advice.contains("psql 'postgres://postgres@db:6000/restored?sslmode=require'"), "{advice}");
        assert!(
            advice.contains("--dbname='postgres://emergent@db:6000/restored?sslmode=require' a.dump"),
            "{advice}"
        );
        assert!(advice.contains("superuser") && !advice.contains("pw"), "{advice}");
        assert_eq!(as_superuser("postgres:///restored"), "postgres:///restored");
        assert_eq!(as_superuser("host=db user=emergent"), "host=db user=emergent");
    }
}
