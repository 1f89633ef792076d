//! The handlers of one path with what the OpenAPI document says about them.
//!
//! A server needs the path, the methods and the handlers when it starts. The description of a path with all
//! schemas that it refers to takes thirty times longer to build, so that happens when somebody asks for the document.

use axum::routing::{MethodFilter, MethodRouter};
use utoipa::openapi::HttpMethod;
use utoipa_axum::{PathItemExt, router::UtoipaMethodRouter};

use crate::{App, openapi};

/// The handlers of one path.
pub(crate) struct Endpoint {
    pub(crate) path: String,
    pub(crate) methods: MethodRouter<App>,
    /// Whether a handler reads parameters of the query.
    pub(crate) takes_query: bool,
    /// Whether a client may send an `Idempotency-Key`.
    pub(crate) takes_idempotency_key: bool,
    /// Builds the description.
    pub(crate) describe: fn() -> UtoipaMethodRouter<App>,
}

impl Endpoint {
    /// Returns an endpoint without handlers, which `describe` describes.
    pub(crate) fn new(describe: fn() -> UtoipaMethodRouter<App>) -> Self {
        Self {
            path: String::new(),
            methods: MethodRouter::new(),
            takes_query: false,
            takes_idempotency_key: false,
            describe,
        }
    }

    /// Adds the handler that `H` describes; `add` adds it to the methods that the filter names.
    ///
    /// # Panics
    ///
    /// If the handler belongs to another path than the ones before it.
    pub(crate) fn with_handler<H: utoipa::Path>(
        mut self,
        add: fn(MethodRouter<App>, MethodFilter) -> MethodRouter<App>,
    ) -> Self {
        let path = H::path();
        assert!(self.path.is_empty() || self.path == path, "{path} is registered with {}", self.path);
        self.path = path;
        self.takes_query |= openapi::has_query_parameter(&H::operation());
        let filters = H::methods().iter().map(HttpMethod::to_method_filter).collect::<Vec<_>>();
        self.methods = filters.into_iter().fold(self.methods, add);
        self
    }
}

/// Returns the [`Endpoint`] of handlers with `#[utoipa::path]`, which all have the same path.
macro_rules! routes {
    ($($($segment:ident)::+),+ $(,)?) => {
        $crate::endpoint::Endpoint::new(|| utoipa_axum::routes!($($($segment)::+),+))
            $(.with_handler::<$crate::endpoint::description_of!([] $($segment)::+)>(
                |methods, filter| methods.on(filter, $($segment)::+),
            ))+
    };
}

/// Names the type that `#[utoipa::path]` declares beside a handler.
macro_rules! description_of {
    ([$($module:tt)*] $handler:ident) => {
        pastey::paste! { $($module)* [<__path_ $handler>] }
    };
    ([$($module:tt)*] $segment:ident :: $($rest:tt)+) => {
        $crate::endpoint::description_of!([$($module)* $segment ::] $($rest)+)
    };
}

pub(crate) use {description_of, routes};
