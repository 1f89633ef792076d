//! What an answer is based on, a line each, with the command that opens it.

use emergent_domain::conversation::CitationKind;
use emergent_wire::chat::CitationView;
use uuid::Uuid;

use crate::{hints, output::first_line, text::short_id};

/// More sources are only counted.
const MAX_SHOWN: usize = 10;
const MAX_TITLE_CHARS: usize = 60;

/// What a source is called, and how to open it.
#[derive(Debug, PartialEq, Eq)]
pub struct Source {
    pub name: String,
    /// `None` where no command opens it.
    pub command: Option<String>,
    /// The same command with a word for what it opens: `emergent graph show NAME`.
    pub opener: Option<String>,
}

/// The sources of an answer, and how many more there are. On a terminal, ids are shortened.
pub fn sources(citations: &[CitationView], short_ids: bool) -> (Vec<Source>, usize) {
    let shown = citations.iter().take(MAX_SHOWN).map(|citation| source(citation, short_ids)).collect();
    (shown, citations.len().saturating_sub(MAX_SHOWN))
}

fn source(citation: &CitationView, short_ids: bool) -> Source {
    let id_text = |id: Uuid| match short_ids {
        true => short_id(&id.to_string()).to_owned(),
        false => id.to_string(),
    };
    let id = id_text(citation.id);
    let title = citation.title.as_deref().map(|title| first_line(title, MAX_TITLE_CHARS));
    let titled = |name: String| match &title {
        Some(title) if !title.is_empty() => format!("{name}  {title}"),
        _ => name,
    };
    let type_ = citation.type_.as_deref().unwrap_or("object");
    let (name, command) = match citation.kind {
        CitationKind::Object => {
            let reference = match (&citation.type_, &citation.key) {
                (Some(type_), Some(key)) => format!("{type_}/{key}"),
                _ => id.clone(),
            };
            let name = if citation.key.is_some() { reference.clone() } else { format!("{type_} {id}") };
            (titled(name), Some(("graph show", hints::quoted(&reference), "NAME")))
        }
        CitationKind::Relationship => (titled(format!("relationship {type_} {id}")), None),
        CitationKind::Chunk => {
            let document = citation.document_id.map(id_text);
            let name = titled(format!("passage {id}"));
            (name, document.map(|document| ("document show", document, "DOCUMENT")))
        }
        CitationKind::Run => (titled(format!("run {id}")), Some(("run show", id, "RUN"))),
    };
    Source {
        name,
        opener: command.as_ref().map(|(verb, _, noun)| hints::command(&format!("{verb} {noun}"))),
        command: command.map(|(verb, reference, _)| hints::command(&format!("{verb} {reference}"))),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const ID: &str = "0198c0de-0000-7000-8000-0000deadbeef";

    fn shown(citation: Value, short_ids: bool) -> (String, Option<String>) {
        let citation: CitationView = serde_json::from_value(citation).unwrap();
        let Source { name, command, .. } = source(&citation, short_ids);
        (name, command)
    }

    #[test]
    fn each_kind_of_source_has_the_command_that_opens_it() {
        let object = json!({ "kind": "object", "id": ID, "type": "Person", "key": "ada", "title": "Ada" });
        let expected = ("Person/ada  Ada".to_owned(), Some("emergent graph show Person/ada".to_owned()));
        assert_eq!(shown(object, true), expected);
        let without_key = json!({ "kind": "object", "id": ID, "type": "Person" });
        let expected = ("Person deadbeef".to_owned(), Some("emergent graph show deadbeef".to_owned()));
        assert_eq!(shown(without_key, true), expected);
        let passage = json!({ "kind": "chunk", "id": ID, "documentId": ID, "title": "Notes" });
        let expected = (format!("passage {ID}  Notes"), Some(format!("emergent document show {ID}")));
        assert_eq!(shown(passage, false), expected);
        let run = json!({ "kind": "run", "id": ID });
        assert_eq!(
            shown(run, true),
            ("run deadbeef".to_owned(), Some("emergent run show deadbeef".to_owned()))
        );
        let relationship = json!({ "kind": "relationship", "id": ID, "type": "knows" });
        assert_eq!(shown(relationship, true), ("relationship knows deadbeef".to_owned(), None));
    }

    #[test]
    fn many_sources_are_counted() {
        let citation: CitationView = serde_json::from_value(json!({ "kind": "run", "id": ID })).unwrap();
        let (shown, more) = sources(&vec![citation; MAX_SHOWN + 3], true);
        assert_eq!((shown.len(), more), (MAX_SHOWN, 3));
    }
}
