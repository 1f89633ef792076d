//! Extracts query parameters. A parameter with several values is repeated: `?type=Task&type=Session`.

use axum::{extract::FromRequestParts, http::request::Parts};
use emergent_domain::{cursor::Page, invalid::Invalid};
use serde::{Deserialize, de::DeserializeOwned};
use utoipa::IntoParams;

use super::{field_problem, params};
use crate::ApiError;

/// The query parameters of a request.
pub(crate) struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        parse_query(parts.uri.query().unwrap_or_default()).map(Self)
    }
}

fn parse_query<T: DeserializeOwned>(text: &str) -> Result<T, ApiError> {
    serde_path_to_error::deserialize(params::deserializer(params::parse_params(text)?)).map_err(|failure| {
        let path = failure.path().clone();
        field_problem(&path, &failure.into_inner().to_string()).into()
    })
}

/// The requested page of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paging {
    /// The maximum number of results; the default is 50.
    #[param(minimum = 1, maximum = 100)]
    limit: Option<i64>,
    /// The `x-next-cursor` of the previous page.
    cursor: Option<String>,
}

/// Declares the parameters of a list: its own ones, and after them those of the page, which `page` returns.
macro_rules! paged_query {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident {
        $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
    }) => {
        #[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
        #[into_params(parameter_in = Query)]
        #[serde(deny_unknown_fields)]
        // An attribute of a derive has to come after it.
        $(#[$meta])*
        $visibility struct $name {
            $($(#[$field_meta])* $field: $type,)*
            /// The maximum number of results; the default is 50.
            #[param(minimum = 1, maximum = 100)]
            limit: Option<i64>,
            /// The `x-next-cursor` of the previous page.
            cursor: Option<String>,
        }

        impl $name {
            fn page(
                &self,
            ) -> std::result::Result<emergent_domain::cursor::Page, emergent_domain::invalid::Invalid> {
                emergent_domain::cursor::Page::new(self.limit, self.cursor.as_deref())
            }
        }
    };
}
pub(crate) use paged_query;

impl Paging {
    pub(crate) fn page(&self) -> Result<Page, Invalid> {
        Page::new(self.limit, self.cursor.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Params {
        limit: Option<i64>,
        #[serde(default, rename = "type")]
        types: Vec<String>,
        #[serde(default)]
        all: bool,
    }

    fn check_refused(text: &str, field: &str) {
        let body = parse_query::<Params>(text).unwrap_err().into_body();
        assert_eq!(body.details.expect("details")[0]["field"], field, "{text}");
    }

    #[test]
    fn parameters_are_read_by_name_and_repeated_for_lists() {
        let params: Params = parse_query("limit=5&type=A&type=B%20c+d&all=true").ok().unwrap();
        let types = vec!["A".to_owned(), "B c d".to_owned()];
        assert_eq!(params, Params { limit: Some(5), types, all: true });
        assert_eq!(
            parse_query::<Params>("").ok().unwrap(),
            Params { limit: None, types: vec![], all: false }
        );
    }

    #[test]
    fn invalid_parameters_are_refused_by_name() {
        check_refused("limit=many", "limit");
        check_refused("limit=1&limit=2", "limit");
        check_refused("limit=99999999999999999999", "limit");
        check_refused("limt=1", "limt");
        check_refused("all=perhaps", "all");
        check_refused("type=%FF", "type");
        check_refused("type=%zz", "type");
    }
}
