//! The OpenAPI document. Handlers describe themselves with `#[utoipa::path]`; the parts that all routes
//! share, such as access rules and error responses, are added here when a route is registered.

use std::collections::BTreeMap;

use emergent_domain::token::Scope;
use serde_json::Value;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        ComponentsBuilder, Content, ContentBuilder, Header, InfoBuilder, Object, ObjectBuilder, OpenApi,
        OpenApiBuilder, PathItem, Paths, Ref, RefOr, ResponseBuilder, Schema, Server,
        extensions::ExtensionsBuilder,
        path::{Operation, ParameterBuilder, ParameterIn},
        schema::{AdditionalProperties, AnyOfBuilder, ArrayItems, SchemaType, Type},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
        tag::TagBuilder,
    },
};

use crate::{access::Access, error::Failure, routes};

/// The name of the security scheme in the document.
const SCHEME: &str = "token";
/// The extension of an operation that names its scope.
pub(crate) const SCOPE: &str = "x-required-scope";

/// Returns the document of all routes.
pub fn openapi() -> OpenApi {
    let mut document = empty();
    document.merge(routes::routes().1());
    if let Some(components) = &mut document.components {
        reference_data_of_envelopes(&mut components.schemas);
        allow_several_choices(components.schemas.get_mut("ChangedWorkflow"));
        components.schemas.values_mut().for_each(|schema| visit_objects(schema, &mut allow_any_property));
    }
    for content in document.paths.paths.values_mut().flat_map(contents) {
        content.schema.iter_mut().for_each(|schema| visit_objects(schema, &mut allow_any_property));
    }
    document
}

/// Returns the request and response bodies of a path's operations.
fn contents(item: &mut PathItem) -> impl Iterator<Item = &mut Content> {
    let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
    operations.into_iter().flatten().flat_map(|operation| {
        let requests = operation.request_body.iter_mut().filter_map(|body| match body {
            RefOr::T(body) => Some(body.content.values_mut()),
            RefOr::Ref(_) => None,
        });
        let responses = operation.responses.responses.values_mut().filter_map(|response| match response {
            RefOr::T(response) => Some(response.content.values_mut()),
            RefOr::Ref(_) => None,
        });
        requests.flatten().chain(responses.flatten()).filter_map(|content| match content {
            RefOr::T(content) => Some(content),
            RefOr::Ref(_) => None,
        })
    })
}

/// Replaces the inlined `data` schema of each envelope by a reference to a named schema, so that a generated
/// client has one type for it. Also sets the only value of `success`.
fn reference_data_of_envelopes(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    let mut inlined = BTreeMap::new();
    for (name, schema) in schemas.iter_mut() {
        let RefOr::T(Schema::Object(envelope)) = schema else { continue };
        if name == &*Failure::name() {
            set_success(envelope, false);
        }
        let Some(data_name) = name.strip_prefix("Envelope_") else { continue };
        set_success(envelope, true);
        let Some(data) = envelope.properties.get_mut("data") else { continue };
        let (data_name, data) = match (data_name.strip_prefix("Vec_"), data) {
            (Some(item_name), RefOr::T(Schema::Array(list))) => match &mut list.items {
                ArrayItems::RefOrSchema(items) => (item_name, &mut **items),
                ArrayItems::False => continue,
            },
            (_, data) => (data_name, data),
        };
        let schema = std::mem::replace(data, Ref::from_schema_name(data_name).into());
        inlined.insert(data_name.to_owned(), schema);
    }
    for (name, mut schema) in inlined {
        // An item of a bulk response is the written object or an error; the object is a reference as well.
        if let (Some(item_name), RefOr::T(Schema::OneOf(alternatives))) =
            (name.strip_prefix("BulkItem_"), &mut schema)
            && let Some(item) = alternatives.items.first_mut()
        {
            *item = Ref::from_schema_name(item_name).into();
        }
        schemas.entry(name).or_insert(schema);
    }
}

/// Declares the only value of `success` in an envelope.
fn set_success(envelope: &mut Object, value: bool) {
    if let Some(RefOr::T(Schema::Object(success))) = envelope.properties.get_mut("success") {
        success.enum_values = Some(vec![Value::Bool(value)]);
    }
}

/// Declares that an object without named properties may have any property. Otherwise generated clients would
/// treat it as an empty object.
fn allow_any_property(object: &mut Object) {
    let is_object = match &object.schema_type {
        SchemaType::Type(type_) => *type_ == Type::Object,
        SchemaType::Array(types) => types.contains(&Type::Object),
        SchemaType::AnyValue => false,
    };
    if is_object && object.properties.is_empty() && object.additional_properties.is_none() {
        object.additional_properties = Some(Box::new(AdditionalProperties::FreeForm(true)));
    }
}

/// Lets a value match several choices of a schema. A whole workflow has everything that the brief answer about one has.
fn allow_several_choices(schema: Option<&mut RefOr<Schema>>) {
    let Some(schema) = schema else { return };
    let RefOr::T(Schema::OneOf(choices)) = &*schema else { return };
    let any = choices.items.iter().cloned().fold(AnyOfBuilder::new(), AnyOfBuilder::item);
    *schema = RefOr::T(Schema::AnyOf(any.description(choices.description.clone()).build()));
}

/// Calls `edit` with every object in a schema, except those behind references.
fn visit_objects(schema: &mut RefOr<Schema>, edit: &mut impl FnMut(&mut Object)) {
    let RefOr::T(schema) = schema else { return };
    match schema {
        Schema::Object(object) => {
            edit(object);
            object.properties.values_mut().for_each(|property| visit_objects(property, edit));
            if let Some(AdditionalProperties::RefOr(inner)) = object.additional_properties.as_deref_mut() {
                visit_objects(inner, edit);
            }
        }
        Schema::Array(list) => {
            if let ArrayItems::RefOrSchema(items) = &mut list.items {
                visit_objects(items, edit);
            }
        }
        Schema::OneOf(schemas) => schemas.items.iter_mut().for_each(|schema| visit_objects(schema, edit)),
        Schema::AllOf(schemas) => schemas.items.iter_mut().for_each(|schema| visit_objects(schema, edit)),
        Schema::AnyOf(schemas) => schemas.items.iter_mut().for_each(|schema| visit_objects(schema, edit)),
        _ => {}
    }
}

/// Returns the document without routes: its title, tags, security scheme and error schema.
fn empty() -> OpenApi {
    let tags = [
        ("server", "Whether it runs, and how it does."),
        ("projects", "The tenants: everything belongs to exactly one project."),
        ("tokens", "Who may do what."),
        ("session", "Logins of browsers: a cookie that stands for a token."),
        ("audit", "Who changed what decides about access, money and programs."),
        ("events", "Everything that happens in a project, as one stream."),
        ("objects", "Typed, versioned things."),
        ("relationships", "Typed, versioned edges between objects."),
        ("graph", "Search, walks, changes, import and export over the whole graph."),
        ("template packs", "What types a project knows, and what their properties look like."),
        ("documents", "Texts, cut into chunks that a search can find."),
        ("agents", "Who works here: definitions, and how they are started."),
        ("external", "Agents for callers from outside: who is there, and how one is started."),
        ("openai", "Agents as models, for clients of OpenAI's chat completions."),
        ("runs", "What agents did and are doing: each run with its messages, tool calls and events."),
        ("approvals", "What waits for a person: calls to approve, questions, discussions, escalations."),
        (
            "chat",
            "Conversations with agents: messages, and answers that are streamed while they are written.",
        ),
        ("tools", "What agents can do."),
        (
            "coordination",
            "Work for several agents: workflows, their tasks and discussions, and what they may cost.",
        ),
        (
            "products",
            "What a project is given as a whole: agents, schemas, jobs, servers and prompts of a manifest.",
        ),
        ("triggers", "What starts agents by itself: schedules and events, and every time one fired."),
        ("secrets", "What external servers are reached with: values go in, never out."),
        ("mcp servers", "External MCP servers, whose tools the project's agents can use."),
        ("mcp", "The Model Context Protocol: tools, prompts and resources for clients that speak it."),
        ("a2a", "Agent2Agent 1.0: external agents for agents of others."),
    ];
    let mut schemas = Vec::new();
    Failure::schemas(&mut schemas);
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(
        "A token of `/api/tokens`. Its scopes say what it may do; one bound to a project works only there.",
    ));
    let components = ComponentsBuilder::new()
        .schema(Failure::name(), Failure::schema())
        .schemas_from_iter(schemas)
        .security_scheme(SCHEME, SecurityScheme::Http(bearer.build()))
        .build();
    let info = InfoBuilder::new()
        .title("Emergent")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "A knowledge graph for agents. Answers are `{ success, data }` or `{ success: false, error }`; lists go \
             on with the `x-next-cursor` header as `cursor`.",
        ))
        .build();
    OpenApiBuilder::new()
        .info(info)
        // The document is served by the server it describes.
        .servers(Some([Server::new("/")]))
        .components(Some(components))
        .tags(Some(tags.map(|(name, about)| TagBuilder::new().name(name).description(Some(about)).build())))
        .build()
}

/// Adds the access rule and the error responses to the operations of a route.
pub(crate) fn describe_access(item: &mut PathItem, access: Access) {
    let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
    for operation in operations.into_iter().flatten() {
        describe(operation, access);
    }
}

/// Describes the errors of all operations of a document as this type with this media type, instead of as those of the
/// API. A surface whose layer writes errors in its own shape says so here.
pub(crate) fn describe_errors<T: ToSchema>(document: &mut OpenApi, media_type: &str) {
    let mut schemas = Vec::new();
    T::schemas(&mut schemas);
    schemas.push((T::name().into_owned(), T::schema()));
    document.components.get_or_insert_default().schemas.extend(schemas);
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            for (status, response) in &mut operation.responses.responses {
                let RefOr::T(response) = response else { continue };
                if status.starts_with('4') || status.starts_with('5') {
                    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name(T::name()))).build();
                    response.content = [(media_type.to_owned(), body.into())].into_iter().collect();
                }
            }
        }
    }
}

/// Describes the responses of all operations that have a media type with another one besides: which one a response has
/// is up to the client.
pub(crate) fn describe_second_type(document: &mut OpenApi, first: &str, second: &str) {
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            for response in operation.responses.responses.values_mut() {
                let RefOr::T(response) = response else { continue };
                if let Some(content) = response.content.get(first).cloned() {
                    response.content.insert(second.to_owned(), content);
                }
            }
        }
    }
}

/// Adds the header `Idempotency-Key` to the operations of a route.
pub(crate) fn describe_idempotency_key(item: &mut PathItem) {
    let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.patch, &mut item.delete];
    for operation in operations.into_iter().flatten() {
        let key = ParameterBuilder::new()
            .name("Idempotency-Key")
            .parameter_in(ParameterIn::Header)
            .required(utoipa::openapi::Required::False)
            .description(Some(
                "The same request with the same key starts nothing more and gets the first answer for 24 hours, with \
                 `Idempotency-Replayed: true`. Another request with the same key is 409.",
            ))
            .schema(Some(
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .min_length(Some(1))
                    .max_length(Some(255))
                    .pattern(Some("^[ -~]+$")),
            ))
            .build();
        operation.parameters.get_or_insert_default().push(key.into());
    }
}

/// Adds the operations of a route, and the schemas that they refer to.
pub(crate) fn add_paths(document: &mut OpenApi, paths: Paths, schemas: Vec<(String, RefOr<Schema>)>) {
    for (path, item) in paths.paths {
        match document.paths.paths.get_mut(&path) {
            Some(known) => known.merge_operations(item),
            None => _ = document.paths.paths.insert(path, item),
        }
    }
    document.components.get_or_insert_default().schemas.extend(schemas);
}

/// Whether an operation has a query parameter.
pub(crate) fn has_query_parameter(operation: &Operation) -> bool {
    let mut parameters = operation.parameters.iter().flatten();
    parameters.any(|param| matches!(param, RefOr::T(param) if param.parameter_in == ParameterIn::Query))
}

/// The description of the error of a body that a caller without a token did not send in time.
const SLOW_BODY: &str = "`timeout`: the body was not complete in time";

/// Adds the access rule and the error responses to one operation.
fn describe(operation: &mut Operation, access: Access) {
    let takes_body = operation.request_body.is_some();
    let takes_params = operation.parameters.as_ref().is_some_and(|params| !params.is_empty());
    let is_paged = operation
        .parameters
        .iter()
        .flatten()
        .any(|param| matches!(param, RefOr::T(param) if param.name == "cursor"));
    let mut errors = vec![
        (429, "`overloaded`: more requests than can be answered at once"),
        (
            503,
            "`timeout`, `unavailable` or `database_unavailable`: the answer took too long, or what it needs cannot be reached",
        ),
    ];
    if access != Access::Public {
        errors.push((422, "`query_timeout` or `answer_too_large`: the database needed too long, or the answer would be too large; ask for less"));
    }
    // Without parameters, an unknown one is refused.
    if takes_body || takes_params || access != Access::Public {
        errors.push((400, "`malformed` or `invalid`: `details` names each field and what is wrong with it"));
    }
    if takes_body {
        errors.push((413, "`too_large`: the body is larger than the limit, which is named"));
        errors.push((415, "`unsupported_media_type`"));
    }
    if takes_body && access == Access::Public {
        errors.push((408, SLOW_BODY));
    }
    match access {
        Access::Public => operation.security = Some(Vec::new()),
        Access::Token => require_token(operation, access),
        Access::Scope(scope) | Access::Scopes(scope, _) => {
            require_token(operation, access);
            errors.push((403, "`missing_scope` or `forbidden`: this token may not do this"));
            let conflict = match scope {
                Scope::GraphWrite | Scope::AdminWrite => {
                    Some("`version_conflict`, `key_taken` or `conflict`: what is there does not allow it")
                }
                Scope::AgentsWrite => {
                    Some("`version_conflict` or `conflict`: what is there does not allow it")
                }
                Scope::AgentsInvoke => Some(
                    "`conflict` or `no_model`: the run's state, or what is configured, does not allow it",
                ),
                _ => None,
            };
            errors.extend(conflict.map(|text| (409, text)));
        }
    }
    if access != Access::Public {
        errors.push((401, "`unauthorized`: no token, or not a valid one"));
        errors.push((404, "`not_found`: not there, or in another project"));
    }
    for (status, description) in errors {
        let responses = &mut operation.responses.responses;
        responses.entry(status.to_string()).or_insert_with(|| error_response(description).into());
    }
    if is_paged && let Some(RefOr::T(page)) = operation.responses.responses.get_mut("200") {
        let next_cursor: Header = utoipa::openapi::HeaderBuilder::new()
            .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
            .description(Some("Where the next page begins; absent on the last."))
            .build();
        page.headers.insert("x-next-cursor".to_owned(), next_cursor.into());
    }
}

/// Declares that an operation needs a token, its scopes, and the header that names a project.
fn require_token(operation: &mut Operation, access: Access) {
    let scopes: Vec<&str> = access.scopes().map(Scope::as_str).collect();
    operation.security = Some(vec![SecurityRequirement::new(SCHEME, scopes.iter().copied())]);
    let scope = scopes.first().map_or(Value::Null, |scope| Value::from(*scope));
    operation.extensions = Some(ExtensionsBuilder::new().add(SCOPE, scope).build());
    let project = ParameterBuilder::new()
        .name("X-Project-ID")
        .parameter_in(ParameterIn::Header)
        .required(utoipa::openapi::Required::False)
        .description(Some("Id or name, for a token that spans projects; `default` when absent."))
        .schema(Some(ObjectBuilder::new().schema_type(Type::String)))
        .build();
    operation.parameters.get_or_insert_default().push(project.into());
}

fn error_response(description: &str) -> utoipa::openapi::Response {
    let body = ContentBuilder::new().schema(Some(Ref::from_schema_name(Failure::name()))).build();
    ResponseBuilder::new().description(description).content("application/json", body).build()
}
