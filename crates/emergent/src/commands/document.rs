//! `emergent document`: adds, lists, searches, shows and deletes documents.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use axum::http::StatusCode;
use bytes::Bytes;
use emergent_domain::text::counted;
use emergent_wire::document::DocumentView;
use futures_util::stream;

use super::{
    confirm::ask_about_last,
    encode,
    resolve::{DOCUMENTS, LAST, resolve_id},
    search::ChunkSearch,
};
use crate::{
    client::{Client, DataAccess, Received},
    error::{Error, Result},
    output::{self, bold},
    progress,
};

/// The largest file that the API accepts, in MiB.
const MAX_MIB: u32 = 64;

#[derive(Debug, clap::Subcommand)]
pub enum Document {
    /// Add files: text, Markdown, HTML or PDF; search and agents find their passages
    Add {
        /// The files
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The title, for a single file [default: the name of the file]
        #[arg(long)]
        title: Option<String>,
        /// The type of the files, such as text/markdown [default: found out from name and content]
        #[arg(long, value_name = "TYPE")]
        mime_type: Option<String>,
        /// Where the document is from
        #[arg(long, value_name = "URL")]
        source_url: Option<String>,
        /// Anything else to know about it, as a JSON object
        #[arg(long, value_name = "JSON")]
        metadata: Option<String>,
    },
    /// List the documents, newest first
    List {
        /// At most this many
        #[arg(long, default_value_t = 20)]
        limit: u32,
    },
    /// Find passages of documents by words, by meaning, or both
    Search(ChunkSearch),
    /// Show one document
    Show {
        /// A title, an id, the end of an id, or `last`
        document: String,
        /// Print its text, and nothing else
        #[arg(long)]
        text: bool,
    },
    /// Delete a document and its passages
    Delete {
        /// A title, an id, the end of an id, or `last`
        document: String,
        /// With `last`, delete it without asking
        #[arg(long, short)]
        yes: bool,
    },
}

/// How the API begins what it says about the bytes of a file.
const CONTENT: &str = "`content`: ";
/// How the API says that a file is of an accepted type and cannot be read.
const UNREADABLE: &str = "could not read the ";

impl Document {
    /// Whether the command may create the data folder.
    pub fn data_access(&self) -> DataAccess {
        match self {
            Document::Add { .. } => DataAccess::Create,
            _ => DataAccess::Existing,
        }
    }

    /// Refuses input that cannot be sent, before a data folder is made for it.
    pub fn check_input(&self) -> Result<()> {
        match self {
            Document::Add { files, title, .. } if files.len() > 1 && title.is_some() => {
                Err(Error::Usage("--title is for a single file".to_owned()))
            }
            Document::Add { files, .. } => files.iter().try_for_each(|file| match File::open(file) {
                Ok(_) => Ok(()),
                Err(source) => Err(Error::input_file(file, source)),
            }),
            _ => Ok(()),
        }
    }

    pub async fn run(self, client: &Client, as_json: bool) -> Result<()> {
        match self {
            Document::Add { files, title, mime_type, source_url, metadata } => {
                let (mut added, mut known) = (Vec::new(), Vec::new());
                for file in &files {
                    let fields = [
                        ("title", title.as_deref()),
                        ("mimeType", mime_type.as_deref().or_else(|| markdown_type(file))),
                        ("sourceUrl", source_url.as_deref()),
                        ("metadata", metadata.as_deref()),
                    ];
                    let uploaded = upload(client, file, &fields).await;
                    let (document, is_new) = uploaded.map_err(|error| not_added(file, &added, error))?;
                    if document.text_bytes == 0 {
                        output::print_notice(&format!(
                            "warning: `{}` has no text: no search finds it",
                            file.display()
                        ));
                    }
                    if !is_new {
                        known.push(document.title.clone());
                    }
                    added.push(document);
                }
                if as_json {
                    return output::print_json(&added);
                }
                print_documents(&added)?;
                for title in known {
                    output::print_notice(&format!(
                        "{title} was not added again: a document has the same content"
                    ));
                }
                Ok(())
            }
            Document::List { limit } => {
                let documents: Vec<Received<DocumentView>> =
                    client.get_limited("/api/documents", limit).await?;
                if as_json { output::print_json(&documents) } else { print_documents(&documents) }
            }
            Document::Search(search) => search.run(client, as_json).await,
            Document::Show { document, text } => {
                let id = resolve_id(client, &DOCUMENTS, &document).await?;
                let path = format!("/api/documents/{}?text={text}", encode(&id));
                let found: Received<DocumentView> = client.get(&path).await?.data().await?;
                match &found.text {
                    _ if as_json => output::print_json(&found),
                    Some(text) => output::print_line(text),
                    None => print_document(&found),
                }
            }
            Document::Delete { document, yes } => {
                let id = resolve_id(client, &DOCUMENTS, &document).await?;
                let path = format!("/api/documents/{}", encode(&id));
                if document == LAST {
                    let found: Received<DocumentView> = client.get(&path).await?.data().await?;
                    ask_about_last(&document, yes, &format!("delete the document {}", found.title))?;
                }
                client.delete(&path).await?;
                if as_json {
                    return output::print_json(&serde_json::json!({ "id": id, "deleted": true }));
                }
                output::print_line(&format!("document {id} is deleted"))
            }
        }
    }
}

/// The error of a file that was not added, with those that were added before it.
fn not_added(file: &Path, added: &[Received<DocumentView>], error: Error) -> Error {
    let reason = match error {
        // It names the file.
        Error::File { .. } => error.describe(),
        Error::Refused { ref code, ref message, .. } => {
            // A file of an accepted type that cannot be read, and a token that may not add it, are another matter.
            let is_of_other_type = code == "invalid" && !message.contains(UNREADABLE);
            let accepted = match is_of_other_type || code == "too_large" {
                true => format!("; text, Markdown, HTML and PDF of at most {MAX_MIB} MiB are accepted"),
                false => String::new(),
            };
            let reason = error.describe();
            let reason = reason.strip_prefix(CONTENT).unwrap_or(&reason);
            format!("`{}` was not added: {reason}{accepted}", file.display())
        }
        other => format!("`{}` was not added: {}", file.display(), other.describe()),
    };
    let titles: Vec<String> = added.iter().map(|document| format!("`{}`", document.title)).collect();
    Error::Usage(match titles.is_empty() {
        true => reason,
        false => format!("{reason} (added before it: {})", titles.join(", ")),
    })
}

/// The server guesses the type from the title and the content. With `--title` it does not see the ending of the file,
/// and Markdown looks like plain text.
fn markdown_type(file: &Path) -> Option<&'static str> {
    let ending = file.extension()?.to_str()?.to_ascii_lowercase();
    matches!(ending.as_str(), "md" | "markdown").then_some("text/markdown")
}

/// Sends a file as a form with these fields; absent ones are left out. Also returns whether the document is new.
async fn upload(
    client: &Client,
    file: &Path,
    fields: &[(&str, Option<&str>)],
) -> Result<(Received<DocumentView>, bool)> {
    let content = tokio::fs::read(file).await.map_err(|source| Error::input_file(file, source))?;
    let boundary = format!("emergent-{}", uuid::Uuid::now_v7().simple());
    let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let body = form_body(&boundary, &name, &content, fields);
    let parts = stream::iter([Ok::<_, std::io::Error>(Bytes::from(body))]);
    let content_type = format!("multipart/form-data; boundary={boundary}");
    let upload = client.upload("/api/documents", &content_type, parts);
    let response = progress::show_while(&format!("adding {name}"), upload).await?;
    let is_new = response.status == StatusCode::CREATED;
    Ok((response.data().await?, is_new))
}

/// The body of a form (RFC 7578) with a file and text fields.
fn form_body(boundary: &str, file_name: &str, content: &[u8], fields: &[(&str, Option<&str>)]) -> Vec<u8> {
    let mut body = Vec::with_capacity(content.len() + 1_024);
    for (name, value) in fields.iter().filter_map(|(name, value)| value.map(|value| (name, value))) {
        let part =
            format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n");
        body.extend_from_slice(part.as_bytes());
    }
    // These characters would end the quoted name, or the line.
    let file_name = file_name.replace(['"', '\r', '\n', '\\'], "_");
    let head = format!(
        "--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{file_name}\"\r\n\
         Content-Type: application/octet-stream\r\n\r\n"
    );
    body.extend_from_slice(head.as_bytes());
    body.extend_from_slice(content);
    body.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    body
}

fn print_documents(documents: &[Received<DocumentView>]) -> Result<()> {
    let rows: Vec<_> = documents
        .iter()
        .map(|document| {
            vec![
                document.id.to_string(),
                document.mime_type.clone(),
                document.chunk_count.to_string(),
                document.created_at.to_string(),
                document.title.clone(),
            ]
        })
        .collect();
    output::print_list(&["ID", "TYPE", "CHUNKS", "ADDED", "TITLE"], &rows, ("document add FILE", "adds one"))
}

fn print_document(document: &DocumentView) -> Result<()> {
    output::print_row(&bold(&document.title))?;
    let mut facts = vec![
        ("id", document.id.to_string()),
        ("type", document.mime_type.clone()),
        ("text", format!("{} bytes in {}", document.text_bytes, counted(document.chunk_count, "chunk"))),
        ("added", document.created_at.to_string()),
        ("sha-256", document.content_hash.clone()),
    ];
    facts.extend(document.source_url.clone().map(|url| ("source", url)));
    if document.metadata.as_str() != "{}" {
        facts.push(("metadata", document.metadata.as_str().to_owned()));
    }
    facts.iter().try_for_each(|(label, value)| output::print_fact(label, value))
}
