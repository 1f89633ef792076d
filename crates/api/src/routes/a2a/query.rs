//! The parameters in the address of a request.

use axum::{extract::FromRequestParts, http::request::Parts};
use emergent_domain::invalid::Invalid;
use emergent_surfaces::a2a::error::A2aError;
use serde::{Deserialize, de::DeserializeOwned};
use utoipa::IntoParams;

use super::{
    agent_call::VERSION,
    failure::{A2aFailure, Result},
};
use crate::{
    ApiError,
    extract::{Query, parameter_names},
};

const MAX_SHOWN_CHARS: usize = 100;

/// The parameters of an operation: those that its description has, and `A2A-Version`. A parameter that nothing reads is
/// refused by its name. A handler has this before [`super::agent_call::AgentCall`], so that a request that is wrong for
/// every agent is refused before an agent is looked for.
pub(super) struct AgentQuery<T>(pub T);

/// An operation whose only parameter is the version.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct VersionOnly {
    /// The version of the protocol, instead of the header.
    #[serde(rename = "A2A-Version", default)]
    _version: Option<String>,
}

impl<T: DeserializeOwned + IntoParams, S: Send + Sync> FromRequestParts<S> for AgentQuery<T> {
    type Rejection = A2aFailure;
    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let names = parameter_names(parts.uri.query().unwrap_or_default()).map_err(refused)?;
        let known: Vec<String> = T::into_params(|| None).into_iter().map(|param| param.name).collect();
        if let Some(unknown) = names.iter().find(|name| !is_known(name, &known)) {
            let shown: String = unknown.chars().take(MAX_SHOWN_CHARS).collect();
            let known = known.iter().map(String::as_str).filter(|name| !name.eq_ignore_ascii_case(VERSION));
            let known: Vec<String> = known.chain(["A2A-Version"]).map(|name| format!("`{name}`")).collect();
            let reason = format!("is not a known parameter; this operation has {}", known.join(", "));
            return Err(refused(Invalid::new(shown, reason)));
        }
        let Query(query) = Query::<T>::from_request_parts(parts, state).await.map_err(request_error)?;
        Ok(Self(query))
    }
}

/// Whether an operation has a parameter. Names of the proto file stand for those of the JSON.
fn is_known(name: &str, known: &[String]) -> bool {
    if name.eq_ignore_ascii_case(VERSION) {
        return true;
    }
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut chars = word.chars();
        camel.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(chars.as_str());
    }
    known.contains(&camel)
}

fn refused(invalid: Invalid) -> A2aFailure {
    request_error(invalid.into())
}

/// The error about the address of a request. It is not about the parameters of a JSON-RPC method, so it has the same
/// status in both bindings.
fn request_error(error: ApiError) -> A2aFailure {
    let status = error.status.as_u16();
    let body = error.into_body();
    let problems = super::failure::problems(&body);
    A2aError::refused_request(status, &body.code, body.message, problems).into()
}
