//! Credentials in a file, in the formats of Google's console and of `gcloud`.

use std::{fs, path::Path};

use emergent_domain::foreign_json;
use reqwest::Url;
use serde::Deserialize;
use serde_json::Value;

use super::{grant::TokenGrant, jwt::Signer};
use crate::Error;

const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";

/// A parsed file: how to get tokens, and for which project.
pub struct CredentialsFile {
    pub grant: TokenGrant,
    /// The project of a service account, or the quota project of a user.
    pub project: Option<String>,
    pub quota_project: Option<String>,
}

#[derive(Deserialize)]
struct ServiceAccount {
    client_email: String,
    private_key: String,
    private_key_id: Option<String>,
}

#[derive(Deserialize)]
struct User {
    client_id: String,
    client_secret: String,
    refresh_token: String,
}

impl CredentialsFile {
    pub fn read(path: &Path) -> Result<Self, Error> {
        let config_error = |reason: String| {
            Error::Config(format!("could not use the Google credentials in `{}`: {reason}", path.display()))
        };
        let text = fs::read_to_string(path).map_err(|error| config_error(error.to_string()))?;
        Self::parse(&text).map_err(config_error)
    }

    fn parse(text: &str) -> Result<Self, String> {
        // The error of serde is not shown, because it could quote a secret.
        let file: Value = foreign_json::from_str(text).map_err(|_| "it is not JSON".to_owned())?;
        let text = |key: &str| file[key].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        let token_url = text("token_uri").unwrap_or_else(|| TOKEN_URL.into());
        let token_url = Url::parse(&token_url).map_err(|_| "its `token_uri` is no URL".to_owned())?;
        let grant = match file["type"].as_str().unwrap_or_default() {
            "service_account" => {
                let account = ServiceAccount::deserialize(&file).map_err(|_| missing("service_account"))?;
                let signer = Signer::new(account.client_email, account.private_key_id, &account.private_key)?;
                TokenGrant::ServiceAccount { signer: Box::new(signer), token_url }
            }
            "authorized_user" => {
                let User { client_id, client_secret, refresh_token } =
                    User::deserialize(&file).map_err(|_| missing("authorized_user"))?;
                TokenGrant::User { client_id, client_secret, refresh_token, token_url }
            }
            other => {
                return Err(format!(
                    "credentials of the type `{other}` are not supported; use `service_account` or `authorized_user`"
                ));
            }
        };
        let quota_project = text("quota_project_id");
        Ok(Self { grant, project: text("project_id").or_else(|| quota_project.clone()), quota_project })
    }
}

fn missing(kind: &str) -> String {
    let fields = match kind {
        "service_account" => "`client_email` and `private_key`",
        _ => "`client_id`, `client_secret` and `refresh_token`",
    };
    format!("the type `{kind}` needs {fields}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let error = CredentialsFile::parse(text).err().expect("a refusal");
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains("s3cret"), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_used_says_why_and_keeps_its_secrets() {
        check("s3cret", "not JSON");
        check(r#"{"type":"service_account","private_key":"s3cret"}"#, "`client_email`");
        check(r#"{"type":"service_account","private_key":"s3cret","client_email":"a"}"#, "not PEM text");
        check(r#"{"type":"authorized_user","refresh_token":["s3cret"]}"#, "`client_id`");
        check(r#"{"type":"external_account"}"#, "`external_account` are not supported");
    }

    #[test]
    fn a_person_is_billed_by_the_quota_project() {
        let text = r#"{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r",
            "quota_project_id":"p"}"#;
        let file = CredentialsFile::parse(text).unwrap();
        assert_eq!((file.project.as_deref(), file.quota_project.as_deref()), (Some("p"), Some("p")));
    }
}
