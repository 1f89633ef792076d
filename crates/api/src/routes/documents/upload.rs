//! Extracts a document from a request body: from JSON, or from a form with a file.

use axum::{
    body::{Body, Bytes},
    extract::{
        FromRequest, Multipart, Request,
        multipart::{Field, MultipartError},
    },
};
use emergent_domain::{document::NewDocument, foreign_json};
use serde_json::{Map, Value};

use crate::{
    ApiError,
    extract::{has_content_type, parse_body, read_limited},
    limits,
    views::document::CreateDocument,
};

/// The maximum size of a field besides the file.
const MAX_TEXT_BYTES: usize = 64 << 10;

/// The document of a request.
pub(super) struct Upload(pub NewDocument);

impl<S: Send + Sync> FromRequest<S> for Upload {
    type Rejection = ApiError;
    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        let is_form = has_content_type(&parts.headers, "multipart/form-data");
        if !is_form && !has_content_type(&parts.headers, "application/json") {
            return Err(ApiError::wrong_content_type("application/json` or `multipart/form-data"));
        }
        let bytes = read_limited(&parts, body, limits::UPLOAD, "the upload").await?;
        if !is_form {
            return Ok(Self(parse_body::<CreateDocument>(&parts, bytes).await?.into()));
        }
        let request = Request::from_parts(parts, Body::from(bytes));
        let form = Multipart::from_request(request, state).await;
        let form = form.map_err(|failure| ApiError::malformed(failure.body_text()))?;
        read_form(form).await.map(Self)
    }
}

/// Reads the fields of a form. The title defaults to the name of the file.
async fn read_form(mut form: Multipart) -> Result<NewDocument, ApiError> {
    let mut file = None;
    let mut file_name = None;
    let (mut title, mut mime_type, mut source_url, mut metadata) = (None, None, None, None);
    while let Some(field) = form.next_field().await.map_err(multipart_error)? {
        match field.name().unwrap_or_default() {
            // The second one would replace the first without a word.
            "file" if file.is_some() => {
                return Err(ApiError::invalid(
                    "file",
                    "is there twice: upload each file with a request of its own",
                ));
            }
            "file" => {
                file_name = field.file_name().map(str::to_owned);
                mime_type = mime_type.or_else(|| declared_type(&field));
                file = Some(field.bytes().await.map_err(multipart_error)?);
            }
            "title" => title = Some(text("title", field).await?),
            "mimeType" => mime_type = Some(text("mimeType", field).await?),
            "sourceUrl" => source_url = Some(text("sourceUrl", field).await?),
            "metadata" => metadata = Some(text("metadata", field).await?),
            other => {
                let reason =
                    "is not a known field; expected `file`, `title`, `mimeType`, `sourceUrl` or `metadata`";
                return Err(ApiError::invalid(other.chars().take(100).collect::<String>(), reason));
            }
        }
    }
    let content: Bytes = file.ok_or_else(|| ApiError::invalid("file", "is required"))?;
    let title = title
        .or(file_name)
        .ok_or_else(|| ApiError::invalid("title", "is required for a file without a name"))?;
    Ok(NewDocument {
        title,
        content: content.into(),
        mime_type,
        source_url,
        metadata: read_metadata(metadata)?,
    })
}

/// Returns the content type that the client declares; `application/octet-stream` counts as none.
fn declared_type(field: &Field<'_>) -> Option<String> {
    field.content_type().filter(|declared| *declared != "application/octet-stream").map(str::to_owned)
}

/// Reads a field that describes the file.
async fn text(name: &str, mut field: Field<'_>) -> Result<String, ApiError> {
    let mut bytes = Vec::new();
    while let Some(part) = field.chunk().await.map_err(multipart_error)? {
        if bytes.len() + part.len() > MAX_TEXT_BYTES {
            return Err(ApiError::invalid(name, format!("is longer than {MAX_TEXT_BYTES} bytes")));
        }
        bytes.extend_from_slice(&part);
    }
    String::from_utf8(bytes).map_err(|_| ApiError::invalid(name, "is not UTF-8"))
}

fn read_metadata(text: Option<String>) -> Result<Map<String, Value>, ApiError> {
    let Some(text) = text else { return Ok(Map::new()) };
    foreign_json::from_str(&text)
        .map_err(|failure| ApiError::invalid("metadata", format!("is not a JSON object: {failure}")))
}

fn multipart_error(failure: MultipartError) -> ApiError {
    ApiError::malformed(format!("the form is invalid: {}", failure.body_text()))
}
