//! Gemini on Vertex AI: its server, project and credentials.

use std::path::PathBuf;

use reqwest::{Url, header::HeaderValue};
use tokio::sync::OnceCell;

use super::{
    gemini::{Credential, Endpoint, Gemini},
    settings::{ChatSettings, versioned_url},
    stream::IDLE_TIMEOUT,
};
use crate::{
    Error,
    embed::non_empty,
    google_auth::{CredentialsFile, TokenGrant, TokenSource},
    http::client,
};

const NAME: &str = "vertex";
const VERSION: &str = "v1beta1";

/// Settings that only Vertex has. With a key in [`ChatSettings`] (express mode) none of them is needed.
/// Otherwise the first available credentials are used: `credentials_file`, `gcloud_file`, or the
/// metadata server.
#[derive(Debug, Clone, Default)]
pub struct VertexSettings {
    /// `GOOGLE_CLOUD_PROJECT`; the default is the project of the credentials, or of the machine inside
    /// Google Cloud.
    pub project: Option<String>,
    /// `GOOGLE_CLOUD_LOCATION`; the default is `global`.
    pub location: Option<String>,
    /// `GOOGLE_APPLICATION_CREDENTIALS`
    pub credentials_file: Option<PathBuf>,
    /// The file that `gcloud auth application-default login` writes; used if it exists.
    pub gcloud_file: Option<PathBuf>,
    /// `GCE_METADATA_HOST`
    pub metadata_host: Option<String>,
}

impl Gemini {
    /// Connects to Vertex AI. A credentials file is read here, so that an invalid one is reported at start;
    /// the first token is requested with the first call.
    pub fn vertex(settings: &ChatSettings, vertex: &VertexSettings) -> Result<Self, Error> {
        let key = non_empty(&settings.api_key);
        let file = if key.is_some() { None } else { credentials(vertex)? };
        let own_project = file.as_ref().and_then(|file| file.project.clone());
        let project = non_empty(&vertex.project).map(str::to_owned).or(own_project);
        let access = match (key, file) {
            (Some(_), _) => Credential::key(key, "the API key of Vertex AI")?,
            (None, file) => token_access(file, vertex)?,
        };
        let location = VertexLocation::new(non_empty(&vertex.location), project, settings.base())?;
        Ok(Self {
            name: NAME,
            client: client(NAME, location.root(), |builder| builder)?,
            idle: settings.idle.unwrap_or(IDLE_TIMEOUT),
            route: Endpoint::Vertex(location),
            access,
        })
    }
}

fn credentials(vertex: &VertexSettings) -> Result<Option<CredentialsFile>, Error> {
    let gcloud = vertex.gcloud_file.as_ref().filter(|path| path.exists());
    vertex.credentials_file.as_ref().or(gcloud).map(|path| CredentialsFile::read(path)).transpose()
}

fn token_access(file: Option<CredentialsFile>, vertex: &VertexSettings) -> Result<Credential, Error> {
    let (grant, quota_project) = match file {
        Some(file) => (file.grant, file.quota_project),
        None => (TokenGrant::metadata(non_empty(&vertex.metadata_host))?, None),
    };
    let quota_project = quota_project
        .map(HeaderValue::try_from)
        .transpose()
        .map_err(|_| Error::Config("the credentials contain an invalid quota project".into()))?;
    Ok(Credential::Token { tokens: Box::new(TokenSource::new(NAME, grant)?), quota_project })
}

/// A location of a project, with its server.
pub(super) struct VertexLocation {
    root: Url,
    location: String,
    project: OnceCell<String>,
}

impl VertexLocation {
    fn new(location: Option<&str>, project: Option<String>, base: Option<&str>) -> Result<Self, Error> {
        let location = location.unwrap_or("global");
        // The location becomes part of a host name to which credentials are sent.
        if !location.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return Err(Error::Config(format!(
                "`GOOGLE_CLOUD_LOCATION` is `{location}`, which is not a valid location"
            )));
        }
        let own = host(location);
        let root = versioned_url(VERSION, "EMERGENT_VERTEX_BASE_URL", base.unwrap_or(&own), "")?;
        Ok(Self { root, location: location.into(), project: OnceCell::new_with(project) })
    }

    pub(super) fn root(&self) -> &Url {
        &self.root
    }

    /// Returns the name of a model inside the project. Inside Google Cloud the machine knows its project,
    /// and is asked once.
    pub(super) async fn project_model_path(
        &self,
        tokens: &TokenSource,
        model: &str,
    ) -> Result<String, Error> {
        if model.starts_with("projects/") {
            return Ok(model.to_owned());
        }
        let project = self.project.get_or_try_init(|| tokens.project()).await?;
        Ok(format!("projects/{project}/locations/{}/{}", self.location, Self::publisher_model_path(model)))
    }

    /// Returns the name of a model without a project: Google's own, unless it names a publisher.
    pub(super) fn publisher_model_path(model: &str) -> String {
        match model.split_once('/') {
            Some(("publishers" | "endpoints", _)) => model.to_owned(),
            Some(("models", name)) => format!("publishers/google/models/{name}"),
            Some((publisher, name)) => format!("publishers/{publisher}/models/{name}"),
            None => format!("publishers/google/models/{model}"),
        }
    }
}

fn host(location: &str) -> String {
    match location {
        "global" => "https://aiplatform.googleapis.com".into(),
        // These names cover several regions.
        "us" | "eu" => format!("https://aiplatform.{location}.rep.googleapis.com"),
        _ => format!("https://{location}-aiplatform.googleapis.com"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_is_served_from_its_own_host() {
        let check = |location, base, url| {
            assert_eq!(VertexLocation::new(location, None, base).unwrap().root().as_str(), url);
        };
        check(None, None, "https://aiplatform.googleapis.com/v1beta1/");
        check(Some("eu"), None, "https://aiplatform.eu.rep.googleapis.com/v1beta1/");
        check(Some("europe-west4"), None, "https://europe-west4-aiplatform.googleapis.com/v1beta1/");
        check(Some("eu"), Some("http://localhost:1/v1"), "http://localhost:1/v1/");
    }

    #[test]
    fn a_location_that_would_lead_to_another_host_is_refused() {
        let error = VertexLocation::new(Some("evil.example/"), None, None).err().expect("a refusal");
        assert!(error.to_string().contains("GOOGLE_CLOUD_LOCATION"));
    }

    #[test]
    fn a_model_is_googles_unless_it_says_whose() {
        let check = |model, path| assert_eq!(VertexLocation::publisher_model_path(model), path);
        check("gemini-2.5-flash", "publishers/google/models/gemini-2.5-flash");
        check("models/gemini-2.5-flash", "publishers/google/models/gemini-2.5-flash");
        check("meta/llama-4", "publishers/meta/models/llama-4");
        check("publishers/meta/models/llama-4", "publishers/meta/models/llama-4");
    }
}
