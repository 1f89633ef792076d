//! The access rule of a route is declared once, where the route is registered. The same rule is
//! enforced on every request and written into the OpenAPI document, so the two cannot disagree.

use std::time::Duration;

use axum::{Extension, middleware};
use emergent_domain::token::Scope;
use utoipa_axum::router::{OpenApiRouter, UtoipaMethodRouter, UtoipaMethodRouterExt};

use crate::{App, auth, extract::BodyLimits, idempotency, limits, openapi, public_requests};

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anyone, without a token.
    Public,
    /// Any valid token.
    Token,
    /// A token with this scope.
    Scope(Scope),
}

/// The timeout of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeLimit {
    Default,
    Upload,
    Wait,
}

impl TimeLimit {
    fn duration(self) -> Duration {
        match self {
            Self::Default => limits::TIME,
            Self::Upload => limits::UPLOAD_TIME,
            Self::Wait => limits::WAIT_TIME,
        }
    }
}

/// Routes with their access rules; a route cannot be added without one.
pub(crate) struct Routes(OpenApiRouter<App>);

impl Routes {
    pub(crate) fn new() -> Self {
        Self(OpenApiRouter::with_openapi(openapi::empty()))
    }

    /// Adds a route that needs no token.
    pub(crate) fn public(self, route: UtoipaMethodRouter<App>) -> Self {
        self.add(Access::Public, TimeLimit::Default, route)
    }

    /// Adds a route that any valid token may call.
    pub(crate) fn any_token(self, route: UtoipaMethodRouter<App>) -> Self {
        self.add(Access::Token, TimeLimit::Default, route)
    }

    /// Adds a route that needs a token with this scope.
    pub(crate) fn scoped(self, scope: Scope, route: UtoipaMethodRouter<App>) -> Self {
        self.add(Access::Scope(scope), TimeLimit::Default, route)
    }

    /// Adds a route that starts work. A client may give a request to it an `Idempotency-Key`; `answer` returns the
    /// answer to a request, given the work that was accepted.
    pub(crate) fn starts_work(
        self,
        scope: Scope,
        route: UtoipaMethodRouter<App>,
        answer: idempotency::AnswerFn,
    ) -> Self {
        self.add(Access::Scope(scope), TimeLimit::Default, once(route, answer))
    }

    /// Adds a route that starts a run and may wait for its end. A repeated request with the same `Idempotency-Key`
    /// waits for the same run.
    pub(crate) fn starts_and_waits(self, scope: Scope, route: UtoipaMethodRouter<App>) -> Self {
        self.add(Access::Scope(scope), TimeLimit::Wait, once(route, idempotency::streamed))
    }

    /// Adds a route that may wait for the end of a run, or for the first start of a program.
    pub(crate) fn waits(self, scope: Scope, route: UtoipaMethodRouter<App>) -> Self {
        self.add(Access::Scope(scope), TimeLimit::Wait, route)
    }

    /// Adds a route that receives a file, whose duration depends on the caller's connection.
    pub(crate) fn upload(self, scope: Scope, route: UtoipaMethodRouter<App>) -> Self {
        self.add(Access::Scope(scope), TimeLimit::Upload, route)
    }

    /// Adds a layer to all routes so far, outside of their access check.
    pub(crate) fn layer<F, A>(self, layer: F) -> Self
    where
        F: Fn(axum::extract::Request, middleware::Next) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = axum::response::Response> + Send + 'static,
    {
        Self(self.0.route_layer(middleware::from_fn(layer)))
    }

    /// Describes the errors of all routes so far as a layer writes them: with this type and this media type.
    pub(crate) fn with_errors<T: utoipa::ToSchema>(mut self, media_type: &str) -> Self {
        openapi::describe_errors::<T>(self.0.get_openapi_mut(), media_type);
        self
    }

    /// Describes the responses of all routes so far that have a media type with another one besides.
    pub(crate) fn with_second_type(mut self, first: &str, second: &str) -> Self {
        openapi::describe_second_type(self.0.get_openapi_mut(), first, second);
        self
    }

    /// Limits the bodies of all routes so far.
    pub(crate) fn limit_bodies(self, limits: BodyLimits) -> Self {
        Self(self.0.route_layer(Extension(limits)))
    }

    pub(crate) fn merge(self, other: Routes) -> Self {
        Self(self.0.merge(other.0))
    }

    pub(crate) fn into_parts(self) -> (axum::Router<App>, utoipa::openapi::OpenApi) {
        self.0.split_for_parts()
    }

    fn add(self, access: Access, time_limit: TimeLimit, mut route: UtoipaMethodRouter<App>) -> Self {
        for item in route.1.paths.values_mut() {
            openapi::describe_access(item, access);
        }
        let takes_query = route.1.paths.values().any(openapi::has_query_parameter);
        let with_layers = route.map(|methods| {
            let methods = match access == Access::Public || takes_query {
                true => methods,
                // A parameter that nothing reads would be ignored silently, such as `asOf` of another route.
                false => methods.route_layer(middleware::from_fn(crate::middleware::refuse_query)),
            };
            let with_timeout = methods.route_layer(middleware::from_fn_with_state(
                time_limit.duration(),
                crate::middleware::limit_time,
            ));
            match access {
                Access::Public => with_timeout.route_layer(middleware::from_fn(public_requests::limit)),
                _ => with_timeout.route_layer(middleware::from_fn_with_state(access, auth::authorize)),
            }
        });
        Self(self.0.routes(with_layers))
    }
}

/// Handles requests to a route with an `Idempotency-Key` once.
fn once(mut route: UtoipaMethodRouter<App>, answer: idempotency::AnswerFn) -> UtoipaMethodRouter<App> {
    route.1.paths.values_mut().for_each(openapi::describe_idempotency_key);
    let once = middleware::from_fn_with_state(answer, idempotency::handle_once);
    route.map(|methods| methods.route_layer(once))
}
