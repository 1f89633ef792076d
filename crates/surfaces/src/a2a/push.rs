//! Push notifications: where a client wants the updates of a task sent, and with which headers.

use emergent_domain::invalid::Invalid;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::{
    error::{A2aError, ErrorKind},
    request::parse_task,
};

/// The maximum number of configurations of one task.
pub const MAX_CONFIGS: usize = 10;
const MAX_ID_CHARS: usize = 200;
const MAX_URL_BYTES: usize = 2_000;
const MAX_SCHEME_CHARS: usize = 40;
const MAX_VALUE_BYTES: usize = 4_096;

/// The header with the token of a configuration.
pub const TOKEN_HEADER: &str = "x-a2a-notification-token";

/// A configuration as clients send it and read it. The token and the credentials are never returned.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aPushConfig)]
#[serde(rename_all = "camelCase")]
pub struct PushConfig {
    /// Made by the server if the client chooses none. A second configuration with the same id replaces the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    #[serde(default, alias = "task_id", skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// Where the updates are sent, as `POST`.
    pub url: String,
    /// Sent in the header `X-A2A-Notification-Token`. Not returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authentication: Option<PushAuthentication>,
}

/// What is sent in the header `Authorization`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aPushAuthentication)]
pub struct PushAuthentication {
    /// Such as `Bearer`.
    pub scheme: String,
    /// Not returned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = A2aPushConfigList)]
#[serde(rename_all = "camelCase")]
pub struct PushConfigList {
    pub configs: Vec<PushConfig>,
    /// Always empty: a task has few configurations.
    pub next_page_token: String,
}

/// The parameters of operations about one configuration.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PushConfigParams {
    #[serde(alias = "task_id")]
    pub task_id: String,
    pub id: String,
}

/// The parameters of a list of configurations. A list has one page.
#[derive(Debug, Clone, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(rename_all = "camelCase")]
pub struct PushPage {
    #[serde(default, alias = "page_size")]
    #[param(minimum = 0)]
    pub page_size: Option<i64>,
    #[serde(default, alias = "page_token")]
    pub page_token: Option<String>,
}

impl PushPage {
    pub fn check(&self) -> Result<(), Invalid> {
        if self.page_token.as_deref().is_some_and(|token| !token.is_empty()) {
            return Err(Invalid::new(
                "pageToken",
                "is not the token of a page of this list: it has one page",
            ));
        }
        match self.page_size {
            Some(size) if size < 0 => Err(Invalid::new("pageSize", "must be 0 or more")),
            _ => Ok(()),
        }
    }
}

/// The parameters of the JSON-RPC method that lists configurations.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListPushConfigs {
    #[serde(alias = "task_id")]
    pub task_id: String,
    #[serde(flatten)]
    pub page: PushPage,
}

/// A configuration after its checks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedPushConfig {
    /// `None` if the server makes it.
    pub id: Option<String>,
    pub url: String,
    pub token: Option<String>,
    pub scheme: Option<String>,
    pub credentials: Option<String>,
}

impl PushConfig {
    /// Checks a configuration. `field` is its name in the request, empty if it is the request. Whether the address may
    /// be reached is checked by who knows the settings of the server.
    pub fn check(self, field: &str) -> Result<CheckedPushConfig, Invalid> {
        let named = |name: &str| match field {
            "" => name.to_owned(),
            field => format!("{field}.{name}"),
        };
        let id = set(self.id);
        if let Some(reason) = id.as_deref().and_then(wrong_id) {
            return Err(Invalid::new(named("id"), reason));
        }
        let reason = match self.url.as_str() {
            "" => Some("is required".to_owned()),
            url if url.len() > MAX_URL_BYTES => Some(format!("is longer than {MAX_URL_BYTES} bytes")),
            url if url.chars().any(char::is_control) => Some("has a control character".to_owned()),
            _ => None,
        };
        if let Some(reason) = reason {
            return Err(Invalid::new(named("url"), reason));
        }
        let token = set(self.token);
        check_value(&named("token"), token.as_deref())?;
        let (scheme, credentials) = match self.authentication {
            None => (None, None),
            Some(PushAuthentication { scheme, credentials }) => {
                (Some(check_scheme(&named("authentication.scheme"), scheme)?), set(credentials))
            }
        };
        check_value(&named("authentication.credentials"), credentials.as_deref())?;
        Ok(CheckedPushConfig { id, url: self.url, token, scheme, credentials })
    }

    /// The task of a configuration, which its address and its body may name.
    pub fn task(&self) -> Result<Option<Uuid>, A2aError> {
        let task = self.task_id.as_deref().filter(|id| !id.is_empty());
        task.map(parse_task).transpose()
    }
}

/// A field that is an empty string counts as not set.
fn set(field: Option<String>) -> Option<String> {
    field.filter(|text| !text.is_empty())
}

fn wrong_id(id: &str) -> Option<String> {
    match id {
        id if id.chars().count() > MAX_ID_CHARS => Some(format!("is longer than {MAX_ID_CHARS} characters")),
        id if id.chars().any(char::is_control) => Some("has a control character".to_owned()),
        _ => None,
    }
}

/// The name of a scheme is a token of HTTP.
fn check_scheme(field: &str, scheme: String) -> Result<String, Invalid> {
    let is_token_char = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    match scheme.is_empty() || scheme.len() > MAX_SCHEME_CHARS || !scheme.chars().all(is_token_char) {
        true => Err(Invalid::new(field, "must be the name of an HTTP authentication scheme, such as Bearer")),
        false => Ok(scheme),
    }
}

/// Checks that a value can be sent in a header.
fn check_value(field: &str, value: Option<&str>) -> Result<(), Invalid> {
    let reason = match value {
        Some(value) if value.len() > MAX_VALUE_BYTES => format!("is longer than {MAX_VALUE_BYTES} bytes"),
        Some(value) if !value.chars().all(|c| c == '\t' || (' '..='~').contains(&c)) => {
            "has a character that a header cannot have".to_owned()
        }
        _ => return Ok(()),
    };
    Err(Invalid::new(field, reason))
}

/// The error about a configuration that does not exist.
pub fn push_config_not_found(task: Uuid, id: &str) -> A2aError {
    let shown: String = id.chars().take(100).collect();
    let message = format!("task `{task}` has no push notification configuration `{shown}`");
    A2aError::new(ErrorKind::TaskNotFound, message).with("taskId", task.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn check(value: Value) -> Result<CheckedPushConfig, String> {
        let config: PushConfig = serde_json::from_value(value).expect("a configuration");
        config.check("").map_err(|invalid| invalid.problems[0].field.clone())
    }

    #[test]
    fn a_configuration_has_an_address_and_perhaps_headers() {
        let plain = check(json!({ "url": "https://example.com/a", "id": "", "token": "" })).unwrap();
        assert_eq!((plain.id, plain.token, plain.scheme), (None, None, None));
        let authentication = json!({ "scheme": "Bearer", "credentials": "abc" });
        let full = check(json!({
            "url": "https://example.com/a", "id": "c1", "token": "t", "authentication": authentication,
        }))
        .unwrap();
        assert_eq!((full.id.as_deref(), full.token.as_deref()), (Some("c1"), Some("t")));
        assert_eq!((full.scheme.as_deref(), full.credentials.as_deref()), (Some("Bearer"), Some("abc")));
    }

    #[test]
    fn what_cannot_be_stored_or_sent_is_refused_by_name() {
        let long = "x".repeat(5_000);
        for (value, field) in [
            (json!({ "url": "" }), "url"),
            (json!({ "url": format!("https://example.com/{long}") }), "url"),
            (json!({ "url": "https://example.com/\u{0}" }), "url"),
            (json!({ "url": "https://example.com", "id": "a\nb" }), "id"),
            (json!({ "url": "https://example.com", "token": "a\nb" }), "token"),
            (json!({ "url": "https://example.com", "token": long }), "token"),
            (
                json!({ "url": "https://example.com", "authentication": { "scheme": "" } }),
                "authentication.scheme",
            ),
            (
                json!({ "url": "https://example.com", "authentication": { "scheme": "Bea rer" } }),
                "authentication.scheme",
            ),
            (
                json!({ "url": "https://example.com", "authentication": { "scheme": "Bearer", "credentials": "é" } }),
                "authentication.credentials",
            ),
        ] {
            assert_eq!(check(value), Err(field.to_owned()));
        }
    }

    #[test]
    fn a_list_has_one_page() {
        let page = |value: Value| serde_json::from_value::<ListPushConfigs>(value).expect("parameters").page;
        assert!(page(json!({ "taskId": "t", "pageSize": 5, "pageToken": "" })).check().is_ok());
        assert!(page(json!({ "task_id": "t", "pageToken": "x" })).check().is_err());
        assert!(page(json!({ "taskId": "t", "pageSize": -1 })).check().is_err());
    }
}
