//! The access rule of a route is declared once, where the route is registered. The same rule is
//! enforced on every request and written into the OpenAPI document, so the two cannot disagree.
//!
//! The router is built at once, and the document when somebody asks for it: [`Routes`] keeps a function that builds it.

use std::time::Duration;

use axum::{Extension, middleware, routing::MethodRouter};
use emergent_domain::token::Scope;
use utoipa::openapi::OpenApi;

use crate::{
    App, auth, endpoint::Endpoint, extract::BodyLimits, idempotency, limits, openapi, public_requests,
};

/// Who may call a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anyone, without a token.
    Public,
    /// Any valid token.
    Token,
    /// A token with this scope.
    Scope(Scope),
    /// A token with both scopes.
    Scopes(Scope, Scope),
}

/// The timeout of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TimeLimit {
    Default,
    Upload,
    Wait,
}

impl Access {
    /// The scopes that a token needs.
    pub(crate) fn scopes(self) -> impl Iterator<Item = Scope> {
        let (first, second) = match self {
            Self::Public | Self::Token => (None, None),
            Self::Scope(scope) => (Some(scope), None),
            Self::Scopes(scope, also) => (Some(scope), Some(also)),
        };
        first.into_iter().chain(second)
    }
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
pub(crate) struct Routes {
    router: axum::Router<App>,
    document: BuildDocument,
}

/// Builds the OpenAPI document of routes.
pub(crate) type BuildDocument = Box<dyn FnOnce() -> OpenApi>;

impl Routes {
    pub(crate) fn new() -> Self {
        Self { router: axum::Router::new(), document: Box::new(OpenApi::default) }
    }

    /// Adds a route that needs no token.
    pub(crate) fn public(self, endpoint: Endpoint) -> Self {
        self.add(Access::Public, TimeLimit::Default, endpoint)
    }

    /// Adds a route that any valid token may call.
    pub(crate) fn any_token(self, endpoint: Endpoint) -> Self {
        self.add(Access::Token, TimeLimit::Default, endpoint)
    }

    /// Adds a route that needs a token with this scope.
    pub(crate) fn scoped(self, scope: Scope, endpoint: Endpoint) -> Self {
        self.add(Access::Scope(scope), TimeLimit::Default, endpoint)
    }

    /// Adds a route that needs a token with both scopes.
    pub(crate) fn scoped_both(self, scope: Scope, also: Scope, endpoint: Endpoint) -> Self {
        self.add(Access::Scopes(scope, also), TimeLimit::Default, endpoint)
    }

    /// Adds a route that starts work. A client may give a request to it an `Idempotency-Key`; `answer` returns the
    /// answer to a request, given the work that was accepted.
    pub(crate) fn starts_work(self, scope: Scope, endpoint: Endpoint, answer: idempotency::AnswerFn) -> Self {
        self.add(Access::Scope(scope), TimeLimit::Default, once(endpoint, answer))
    }

    /// Adds a route that starts a run and may wait for its end. A repeated request with the same `Idempotency-Key`
    /// waits for the same run.
    pub(crate) fn starts_and_waits(self, scope: Scope, endpoint: Endpoint) -> Self {
        self.add(Access::Scope(scope), TimeLimit::Wait, once(endpoint, idempotency::streamed))
    }

    /// Adds a route that may wait for the end of a run, or for the first start of a program.
    pub(crate) fn waits(self, scope: Scope, endpoint: Endpoint) -> Self {
        self.add(Access::Scope(scope), TimeLimit::Wait, endpoint)
    }

    /// Adds a route that receives a file, whose duration depends on the caller's connection.
    pub(crate) fn upload(self, scope: Scope, endpoint: Endpoint) -> Self {
        self.add(Access::Scope(scope), TimeLimit::Upload, endpoint)
    }

    /// Adds a layer to all routes so far, outside of their access check.
    pub(crate) fn layer<F, A>(self, layer: F) -> Self
    where
        F: Fn(axum::extract::Request, middleware::Next) -> A + Clone + Send + Sync + 'static,
        A: Future<Output = axum::response::Response> + Send + 'static,
    {
        Self { router: self.router.route_layer(middleware::from_fn(layer)), ..self }
    }

    /// Describes the errors of all routes so far as a layer writes them: with this type and this media type.
    pub(crate) fn with_errors<T: utoipa::ToSchema>(self, media_type: &'static str) -> Self {
        self.described(move |document| openapi::describe_errors::<T>(document, media_type))
    }

    /// Describes the responses of all routes so far that have a media type with another one besides.
    pub(crate) fn with_second_type(self, first: &'static str, second: &'static str) -> Self {
        self.described(move |document| openapi::describe_second_type(document, first, second))
    }

    /// Limits the bodies of all routes so far.
    pub(crate) fn limit_bodies(self, limits: BodyLimits) -> Self {
        Self { router: self.router.route_layer(Extension(limits)), ..self }
    }

    pub(crate) fn merge(self, other: Routes) -> Self {
        let routes = Self { router: self.router.merge(other.router), document: self.document };
        routes.described(move |document| document.merge((other.document)()))
    }

    /// Returns the router, and the function that builds the document which describes it.
    pub(crate) fn into_parts(self) -> (axum::Router<App>, BuildDocument) {
        (self.router, self.document)
    }

    fn add(self, access: Access, time_limit: TimeLimit, endpoint: Endpoint) -> Self {
        let (describe, takes_key) = (endpoint.describe, endpoint.takes_idempotency_key);
        let methods = guard(endpoint.methods, access, time_limit, endpoint.takes_query);
        let routes = Self { router: self.router.route(&endpoint.path, methods), document: self.document };
        routes.described(move |document| {
            let (schemas, mut paths, _) = describe();
            for item in paths.paths.values_mut() {
                if takes_key {
                    openapi::describe_idempotency_key(item);
                }
                openapi::describe_access(item, access);
            }
            openapi::add_paths(document, paths, schemas);
        })
    }

    /// Returns the routes with a document that `describe` has changed.
    fn described(self, describe: impl FnOnce(&mut OpenApi) + 'static) -> Self {
        let before = self.document;
        let document = Box::new(move || {
            let mut document = before();
            describe(&mut document);
            document
        });
        Self { router: self.router, document }
    }
}

/// Returns the handlers of a route with the checks of its access rule and with its timeout.
fn guard(
    methods: MethodRouter<App>,
    access: Access,
    time_limit: TimeLimit,
    takes_query: bool,
) -> MethodRouter<App> {
    let methods = match access == Access::Public || takes_query {
        true => methods,
        // A parameter that nothing reads would be ignored silently, such as `asOf` of another route.
        false => methods.route_layer(middleware::from_fn(crate::middleware::refuse_query)),
    };
    let with_timeout = methods
        .route_layer(middleware::from_fn_with_state(time_limit.duration(), crate::middleware::limit_time));
    match access {
        Access::Public => with_timeout.route_layer(middleware::from_fn(public_requests::limit)),
        _ => with_timeout.route_layer(middleware::from_fn_with_state(access, auth::authorize)),
    }
}

/// Handles requests to a route with an `Idempotency-Key` once.
fn once(mut endpoint: Endpoint, answer: idempotency::AnswerFn) -> Endpoint {
    let once = middleware::from_fn_with_state(answer, idempotency::handle_once);
    endpoint.methods = endpoint.methods.route_layer(once);
    endpoint.takes_idempotency_key = true;
    endpoint
}
