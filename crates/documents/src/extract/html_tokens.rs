//! Reads HTML as a stream of tags and texts. Of the attributes, only those that can be text are stored, so that a tag with
//! very many of them needs neither memory nor time for each.

use html5gum::{
    Span, Tokenizer,
    emitters::callback::{CallbackEmitter, CallbackEvent},
};

/// A tag with more attributes than this was not made for a page.
pub(super) const MAX_ATTRIBUTES: usize = 10_000;

/// A part of a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum HtmlToken {
    StartTag(StartTag),
    /// The end tag of the element with this name.
    EndTag(Vec<u8>),
    Text(String),
    /// A tag has more than [`MAX_ATTRIBUTES`].
    TooManyAttributes,
}

/// The start of an element.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct StartTag {
    pub name: Vec<u8>,
    pub self_closing: bool,
    /// The description of an image.
    pub alt: Option<Vec<u8>>,
    /// The number of the first item of a list.
    pub start: Option<Vec<u8>>,
}

/// Which tokens are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenFilter {
    All,
    /// Only tags, without the texts between them.
    Tags,
}

pub(super) fn tokens(html: &str, filter: TokenFilter) -> impl Iterator<Item = HtmlToken> {
    let mut collector = TagCollector { filter, ..TagCollector::default() };
    let mut emitter =
        CallbackEmitter::new(move |event: CallbackEvent<'_>, _span: Span<()>| -> Option<HtmlToken> {
            collector.collect(event)
        });
    // Without this setting, the content of a script would be parsed as tags.
    emitter.naively_switch_states(true);
    Tokenizer::new_with_emitter(html, emitter).map(|token| {
        let Ok(token) = token;
        token
    })
}

/// An attribute that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StoredAttribute {
    Alt,
    Start,
}

/// Collects the parts of a tag until it ends.
#[derive(Debug)]
struct TagCollector {
    filter: TokenFilter,
    tag: StartTag,
    /// The attribute whose value follows, if it is stored.
    attribute: Option<StoredAttribute>,
    /// How many attributes the tag has had so far.
    attributes: usize,
}

impl Default for TagCollector {
    fn default() -> Self {
        Self { filter: TokenFilter::All, tag: StartTag::default(), attribute: None, attributes: 0 }
    }
}

impl TagCollector {
    fn collect(&mut self, event: CallbackEvent<'_>) -> Option<HtmlToken> {
        match event {
            CallbackEvent::OpenStartTag { name } => {
                self.begin_tag();
                self.tag.name.extend_from_slice(name);
                None
            }
            CallbackEvent::AttributeName { name } => self.begin_attribute(name),
            CallbackEvent::AttributeValue { value } => {
                let stored = match self.attribute {
                    Some(StoredAttribute::Alt) => &mut self.tag.alt,
                    Some(StoredAttribute::Start) => &mut self.tag.start,
                    None => return None,
                };
                stored.get_or_insert_default().extend_from_slice(value);
                None
            }
            CallbackEvent::CloseStartTag { self_closing } => {
                let tag = StartTag { self_closing, ..std::mem::take(&mut self.tag) };
                self.begin_tag();
                Some(HtmlToken::StartTag(tag))
            }
            CallbackEvent::EndTag { name } => {
                // An end tag may have attributes by mistake.
                self.begin_tag();
                Some(HtmlToken::EndTag(name.to_vec()))
            }
            CallbackEvent::String { value } if self.filter == TokenFilter::All => {
                Some(HtmlToken::Text(String::from_utf8_lossy(value).into_owned()))
            }
            CallbackEvent::String { .. }
            | CallbackEvent::Comment { .. }
            | CallbackEvent::Doctype { .. }
            | CallbackEvent::Error(_) => None,
        }
    }

    fn begin_tag(&mut self) {
        self.tag = StartTag::default();
        (self.attribute, self.attributes) = (None, 0);
    }

    fn begin_attribute(&mut self, name: &[u8]) -> Option<HtmlToken> {
        // The first of several attributes of one name counts.
        let (attribute, stored) = match name {
            b"alt" => (StoredAttribute::Alt, &mut self.tag.alt),
            b"start" => (StoredAttribute::Start, &mut self.tag.start),
            _ => {
                self.attribute = None;
                return self.count_attribute();
            }
        };
        self.attribute = stored.is_none().then_some(attribute);
        stored.get_or_insert_default();
        self.count_attribute()
    }

    fn count_attribute(&mut self) -> Option<HtmlToken> {
        self.attributes += 1;
        (self.attributes == MAX_ATTRIBUTES + 1).then_some(HtmlToken::TooManyAttributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(name: &str) -> StartTag {
        StartTag { name: name.into(), ..StartTag::default() }
    }

    #[test]
    fn a_tag_has_the_first_of_its_attributes_that_can_be_text() {
        let html = r#"<img src=x alt="a &amp; b" alt=c><ol START=3 type=a>x</ol alt=no><br/>"#;
        let expected = [
            HtmlToken::StartTag(StartTag { alt: Some(b"a & b".to_vec()), ..tag("img") }),
            HtmlToken::StartTag(StartTag { start: Some(b"3".to_vec()), ..tag("ol") }),
            HtmlToken::Text("x".into()),
            HtmlToken::EndTag(b"ol".to_vec()),
            HtmlToken::StartTag(StartTag { self_closing: true, ..tag("br") }),
        ];
        assert_eq!(tokens(html, TokenFilter::All).collect::<Vec<_>>(), expected);
        let tags = tokens(html, TokenFilter::Tags).filter(|token| !matches!(token, HtmlToken::Text(_)));
        assert_eq!(tags.count(), tokens(html, TokenFilter::Tags).count());
    }

    #[test]
    fn a_tag_with_too_many_attributes_is_reported_once() {
        let attributes: String = (0..=MAX_ATTRIBUTES).map(|number| format!(" a{number}")).collect();
        let html = format!("<p{attributes} b c>text");
        let tokens: Vec<_> = tokens(&html, TokenFilter::All).collect();
        let reported = tokens.iter().filter(|token| **token == HtmlToken::TooManyAttributes).count();
        assert_eq!((reported, tokens.len()), (1, 3));
    }
}
