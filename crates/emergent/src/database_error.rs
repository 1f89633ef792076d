//! Errors about the address of the database. They name the flag, the variable or the file that it came from.

use std::{error::Error as _, io};

use crate::{
    config::{Settings, env_value},
    error::{Error, Result},
    settings_report,
};

/// The port of PostgreSQL where a URL names none.
const DEFAULT_PORT: u16 = 5432;

/// Refuses an address that is not one of PostgreSQL. Its text is not shown: it may have a password.
pub fn check_address(settings: &Settings) -> Result<()> {
    let Some(url) = &settings.database_url else { return Ok(()) };
    let is_url = ["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme));
    // Settings such as `host=db user=me` are accepted as well.
    let has_pairs = !url.contains("://") && url.contains('=');
    if is_url || has_pairs {
        return Ok(());
    }
    Err(setting_error(settings, "it must start with postgres://".to_owned()))
}

/// The error for a database that could not be opened.
pub fn describe_open_error(settings: &Settings, error: emergent_store::Error) -> Error {
    if settings.database_url.is_none() {
        return Error::Store(error);
    }
    match (&error, io_cause(&error)) {
        (emergent_store::Error::Open { place, .. }, Some(cause)) => {
            let reason =
                format!("PostgreSQL does not answer at {} ({cause}); does it run there?", server_of(place));
            setting_error(settings, reason)
        }
        _ => match error.postgres_code().and_then(refusal) {
            Some(reason) => {
                let reason = format!("{reason} ({})", emergent_net::errors::error_chain(&error));
                setting_error(settings, reason)
            }
            None => Error::Database { setting: setting_name(settings), source: error },
        },
    }
}

/// What a person can do about a database that PostgreSQL refuses, by the code of the refusal.
fn refusal(code: &str) -> Option<&'static str> {
    Some(match code {
        "3D000" => "there is no such database: create it, for example with `createdb`, and start again",
        "28P01" | "28000" => "PostgreSQL does not accept this user and password",
        "42501" => {
            "the user may not set up the database: make it the owner of the database, and have a superuser run \
             `CREATE EXTENSION vector` in it"
        }
        "0A000" | "58P01" => "the PostgreSQL server lacks the extension `vector`: install pgvector there",
        _ => return None,
    })
}

/// How an error tells a person to leave the address of the database out.
pub fn removal_advice(database_url: &str) -> &'static str {
    match env_value("EMERGENT_DATABASE_URL").as_deref() == Some(database_url) {
        true => "unset EMERGENT_DATABASE_URL",
        false => "leave --database-url out",
    }
}

fn setting_error(settings: &Settings, reason: String) -> Error {
    Error::Setting { name: setting_name(settings), reason }
}

/// Where the address of the database comes from.
fn setting_name(settings: &Settings) -> String {
    let url = settings.database_url.as_deref();
    let flag = settings.origins.flags.get("database-url").map(String::as_str);
    let name = match () {
        () if env_value("EMERGENT_DATABASE_URL").as_deref() == url => "EMERGENT_DATABASE_URL",
        () if flag == url => "--database-url",
        () if env_value("DATABASE_URL").as_deref() == url => "DATABASE_URL",
        () => return settings_report::named_in_file("database-url"),
    };
    format!("`{name}`")
}

/// The failure of the connection that an error is about, if it is.
fn io_cause(error: &emergent_store::Error) -> Option<&io::Error> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error);
        }
        cause = error.source();
    }
    None
}

/// The host and port of a URL without its password.
fn server_of(place: &str) -> String {
    match reqwest::Url::parse(place) {
        Ok(url) => match url.host_str() {
            Some(host) => format!("{host}:{}", url.port().unwrap_or(DEFAULT_PORT)),
            None => place.to_owned(),
        },
        Err(_) => place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_database_is_a_plain_sentence() {
        assert!(refusal("3D000").is_some_and(|reason| reason.starts_with("there is no such database")));
        assert_eq!(refusal("57014"), None);
    }

    #[test]
    fn a_server_is_its_host_and_port() {
        assert_eq!(server_of("postgres://me@db/emergent"), "db:5432");
        assert_eq!(server_of("postgres://[::1]:6000/x"), "[::1]:6000");
        assert_eq!(server_of("a database URL"), "a database URL");
    }
}
