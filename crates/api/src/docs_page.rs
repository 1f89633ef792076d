//! The OpenAPI document as an HTML page. The page is generated from the document alone and loads
//! nothing else.

use std::fmt::Write;

use serde_json::Value;
use utoipa::openapi::OpenApi;

/// The style of the page, which its policy allows.
pub(crate) const STYLE: &str = include_str!("docs_page.css");

/// Renders the document as HTML.
pub(crate) fn render(document: &OpenApi) -> String {
    let document = serde_json::to_value(document).unwrap_or_default();
    let mut page = Page { document: &document, html: String::with_capacity(256 << 10) };
    // Writing to a string cannot fail.
    let _ = page.write_page();
    page.html
}

struct Page<'a> {
    document: &'a Value,
    html: String,
}

impl Page<'_> {
    fn write_page(&mut self) -> std::fmt::Result {
        let info = &self.document["info"];
        let (title, version) = (escape(text(&info["title"])), escape(text(&info["version"])));
        let about = prose(text(&info["description"]));
        write!(
            self.html,
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title} API</title>\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><style>{STYLE}</style></head>\
             <body><header><h1>{title} <small>{version}</small></h1><p>{about} The document itself is at \
             <code>/api/openapi.json</code>.</p></header><div class=\"columns\"><nav>"
        )?;
        let tags = self.document["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
        for tag in tags {
            self.contents(text(&tag["name"]))?;
        }
        self.html.push_str("</nav><main>");
        for tag in tags {
            self.chapter(text(&tag["name"]), text(&tag["description"]))?;
        }
        self.schemas()?;
        self.html.push_str("</main></div></body></html>");
        Ok(())
    }

    /// Returns the operations of a tag: path, method, operation.
    fn operations(&self, tag: &str) -> Vec<(String, String, Value)> {
        let mut operations = Vec::new();
        for (path, item) in self.document["paths"].as_object().into_iter().flatten() {
            for method in ["get", "post", "put", "patch", "delete"] {
                let operation = &item[method];
                if operation["tags"].as_array().is_some_and(|tags| tags.iter().any(|name| name == tag)) {
                    operations.push((path.clone(), method.to_owned(), operation.clone()));
                }
            }
        }
        operations
    }

    /// Writes the entry of a tag in the table of contents.
    fn contents(&mut self, tag: &str) -> std::fmt::Result {
        write!(self.html, "<h4>{}</h4><ul>", escape(tag))?;
        for (path, method, operation) in self.operations(tag) {
            let id = escape(text(&operation["operationId"]));
            write!(
                self.html,
                "<li><a href=\"#{id}\"><b class=\"{method}\">{method}</b> {}</a></li>",
                escape(&path)
            )?;
        }
        self.html.push_str("</ul>");
        Ok(())
    }

    fn chapter(&mut self, tag: &str, about: &str) -> std::fmt::Result {
        write!(self.html, "<h2>{}</h2><p>{}</p>", escape(tag), prose(about))?;
        for (path, method, operation) in self.operations(tag) {
            self.operation(&path, &method, &operation)?;
        }
        Ok(())
    }

    fn operation(&mut self, path: &str, method: &str, operation: &Value) -> std::fmt::Result {
        let id = escape(text(&operation["operationId"]));
        let about = match text(&operation["description"]) {
            "" => text(&operation["summary"]),
            long => long,
        };
        write!(
            self.html,
            "<section id=\"{id}\"><h3><b class=\"{method}\">{method}</b> <code>{}</code> {}</h3><p>{}</p>",
            escape(path),
            access_badge(operation),
            prose(about)
        )?;
        self.parameters(operation)?;
        self.body(operation)?;
        self.responses(operation)?;
        self.html.push_str("</section>");
        Ok(())
    }

    fn parameters(&mut self, operation: &Value) -> std::fmt::Result {
        let parameters: Vec<_> = operation["parameters"].as_array().into_iter().flatten().collect();
        if parameters.is_empty() {
            return Ok(());
        }
        self.html.push_str("<table><tr><th>Parameter</th><th>In</th><th>Type</th><th></th></tr>");
        for parameter in parameters {
            let required = if parameter["required"] == true { " <i>required</i>" } else { "" };
            write!(
                self.html,
                "<tr><td><code>{}</code>{required}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(text(&parameter["name"])),
                escape(text(&parameter["in"])),
                schema_summary(&parameter["schema"]),
                prose(text(&parameter["description"])),
            )?;
        }
        self.html.push_str("</table>");
        Ok(())
    }

    fn body(&mut self, operation: &Value) -> std::fmt::Result {
        for (media, content) in operation["requestBody"]["content"].as_object().into_iter().flatten() {
            write!(
                self.html,
                "<p>Body: <code>{}</code> {}</p>",
                escape(media),
                schema_summary(&content["schema"])
            )?;
        }
        Ok(())
    }

    fn responses(&mut self, operation: &Value) -> std::fmt::Result {
        self.html.push_str("<table><tr><th>Answer</th><th>Type</th><th></th></tr>");
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let mut kinds = String::new();
            for (media, content) in response["content"].as_object().into_iter().flatten() {
                match media.as_str() {
                    "application/json" => kinds.push_str(&schema_summary(&content["schema"])),
                    other => write!(kinds, "<code>{}</code>", escape(other))?,
                }
            }
            let css_class = if status.starts_with('2') { "fine" } else { "refused" };
            write!(
                self.html,
                "<tr><td class=\"{css_class}\">{}</td><td>{kinds}</td><td>{}</td></tr>",
                escape(status),
                prose(text(&response["description"]))
            )?;
        }
        self.html.push_str("</table>");
        Ok(())
    }

    fn schemas(&mut self) -> std::fmt::Result {
        self.html.push_str("<h2>types</h2>");
        for (name, schema) in self.document["components"]["schemas"].as_object().into_iter().flatten() {
            let name = escape(name);
            write!(self.html, "<section id=\"type-{name}\"><h3><code>{name}</code></h3>")?;
            write!(self.html, "<p>{}</p>", prose(text(&schema["description"])))?;
            let Some(properties) = schema["properties"].as_object() else {
                write!(self.html, "<p>{}</p></section>", schema_summary(schema))?;
                continue;
            };
            let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().map(text).collect();
            self.html.push_str("<table><tr><th>Field</th><th>Type</th><th></th></tr>");
            for (field, schema) in properties {
                let required_mark = if required.contains(&field.as_str()) { " <i>required</i>" } else { "" };
                write!(
                    self.html,
                    "<tr><td><code>{}</code>{required_mark}</td><td>{}</td><td>{}</td></tr>",
                    escape(field),
                    schema_summary(schema),
                    prose(text(&schema["description"]))
                )?;
            }
            self.html.push_str("</table></section>");
        }
        Ok(())
    }
}

/// Renders the access rule of an operation.
fn access_badge(operation: &Value) -> String {
    match (&operation["x-required-scope"], operation["security"].as_array()) {
        (Value::String(scope), _) => format!("<em>{}</em>", escape(scope)),
        (_, Some(required)) if !required.is_empty() => "<em>any token</em>".to_owned(),
        _ => "<em>public</em>".to_owned(),
    }
}

/// Summarises a schema, with links to the types it names.
fn schema_summary(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next()) {
        let name = escape(name);
        return format!("<a href=\"#type-{name}\">{name}</a>");
    }
    for choice in ["oneOf", "anyOf", "allOf"] {
        if let Some(kinds) = schema[choice].as_array() {
            return kinds.iter().map(schema_summary).collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<_> =
            values.iter().map(|value| format!("<code>{}</code>", escape(text(value)))).collect();
        return values.join(" | ");
    }
    let type_name = match &schema["type"] {
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            names.iter().map(text).filter(|name| *name != "null").collect::<Vec<_>>().join(" | ")
        }
        _ => "any".to_owned(),
    };
    let format = schema["format"].as_str().map(|format| format!(" ({})", escape(format))).unwrap_or_default();
    match type_name.as_str() {
        "array" => format!("list of {}", schema_summary(&schema["items"])),
        _ => format!("{}{format}", escape(&type_name)),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Renders text in which backticks enclose code.
fn prose(text: &str) -> String {
    let mut html = String::new();
    for (index, part) in text.split('`').enumerate() {
        let part = escape(part);
        let _ = if index % 2 == 1 { write!(html, "<code>{part}</code>") } else { write!(html, "{part}") };
    }
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_operation_and_type_and_loads_nothing_else() {
        let document = crate::openapi();
        let page = render(&document);
        let document = serde_json::to_value(document).unwrap();
        for item in document["paths"].as_object().unwrap().values() {
            for operation in item.as_object().unwrap().values() {
                let id = format!("<section id=\"{}\">", operation["operationId"].as_str().unwrap());
                assert_eq!(page.matches(&id).count(), 1, "{id}");
            }
        }
        for name in document["components"]["schemas"].as_object().unwrap().keys() {
            assert!(page.contains(&format!("id=\"type-{name}\"")), "{name}");
        }
        for fetches in ["src=", "href=\"http", "href=\"//", "url(", "@import"] {
            assert!(!page.contains(fetches), "the page needs nothing from elsewhere: {fetches}");
        }
    }
}
