//! Extracts text from Markdown: CommonMark with tables, task lists, footnotes, strikethrough and
//! front matter.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::writer::{Gap, Writer};
use super::{ExtractedText, html};
use crate::error::Error;

/// Extracts the visible text. Formatting marks are dropped, code is unchanged, a link becomes its
/// text and an image its description. Front matter is included, because it describes the page.
pub(super) fn extract(markdown: &str) -> Result<ExtractedText, Error> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_YAML_STYLE_METADATA_BLOCKS;
    let mut reader = Reader::default();
    for event in Parser::new_ext(markdown, options) {
        reader.read(event)?;
    }
    let (text, headings) = reader.writer.finish();
    let top_heading = || headings.iter().find(|heading| heading.level == 1);
    let title = reader.title.or_else(|| Some(top_heading()?.title.clone()));
    Ok(ExtractedText { text, headings, title })
}

/// Writes the text of the parser events that it reads.
#[derive(Default)]
struct Reader {
    writer: Writer,
    block: Block,
    title: Option<String>,
}

/// The kind of block that contains the current text.
#[derive(Default)]
enum Block {
    #[default]
    Prose,
    Code,
    FrontMatter,
    /// HTML is collected, because a tag may span several lines.
    Html(String),
}

impl Reader {
    fn read(&mut self, event: Event<'_>) -> Result<(), Error> {
        match event {
            Event::Start(tag) => self.start_tag(tag),
            Event::End(tag) => return self.end_tag(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                self.writer.words(&text);
            }
            Event::Html(part) => self.text(&part),
            Event::InlineHtml(tag) if tag.to_ascii_lowercase().starts_with("<br") => {
                self.writer.gap(Gap::Line);
            }
            Event::InlineHtml(_) | Event::FootnoteReference(_) => {}
            Event::SoftBreak => self.writer.gap(Gap::Space),
            Event::HardBreak => self.writer.gap(Gap::Line),
            Event::Rule => self.writer.gap(Gap::Paragraph),
            Event::TaskListMarker(done) => self.writer.words(if done { "[x] " } else { "[ ] " }),
        }
        Ok(())
    }

    fn start_tag(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => self.writer.begin_heading(level as u8),
            Tag::List(first) => self.writer.begin_list(first),
            Tag::Item => self.writer.item(),
            Tag::Table(_) => self.writer.begin_table(),
            Tag::TableHead | Tag::TableRow => self.writer.row(),
            Tag::TableCell => self.writer.cell(),
            Tag::CodeBlock(_) => self.start_block(Block::Code),
            Tag::MetadataBlock(_) => self.start_block(Block::FrontMatter),
            Tag::HtmlBlock => self.start_block(Block::Html(String::new())),
            tag if is_inline(&tag.to_end()) => {}
            _ => self.writer.gap(Gap::Paragraph),
        }
    }

    fn end_tag(&mut self, tag: TagEnd) -> Result<(), Error> {
        match tag {
            TagEnd::Heading(_) => self.writer.end_heading(),
            TagEnd::List(_) => self.writer.end_list(),
            TagEnd::Table => self.writer.end_table(),
            TagEnd::TableHead | TagEnd::TableRow | TagEnd::TableCell | TagEnd::Item => {}
            tag if is_inline(&tag) => {}
            _ => {
                if let Block::Html(part) = std::mem::take(&mut self.block) {
                    html::write(&part, &mut self.writer)?;
                }
                self.writer.gap(Gap::Paragraph);
            }
        }
        Ok(())
    }

    fn start_block(&mut self, block: Block) {
        self.writer.gap(Gap::Paragraph);
        self.block = block;
    }

    fn text(&mut self, text: &str) {
        match &mut self.block {
            Block::Prose => self.writer.words(text),
            Block::Code => self.writer.verbatim(text),
            Block::FrontMatter => {
                self.writer.verbatim(text);
                self.title = text.lines().find_map(title_line).or(self.title.take());
            }
            Block::Html(part) => part.push_str(text),
        }
    }
}

fn is_inline(tag: &TagEnd) -> bool {
    matches!(
        tag,
        TagEnd::Emphasis
            | TagEnd::Strong
            | TagEnd::Strikethrough
            | TagEnd::Superscript
            | TagEnd::Subscript
            | TagEnd::Link
            | TagEnd::Image
    )
}

/// Returns the title in a line of YAML, if it is a plain or quoted text.
fn title_line(line: &str) -> Option<String> {
    let title = line.strip_prefix("title:")?.trim();
    let title = title.trim_matches(['"', '\'']);
    (!title.is_empty()).then(|| title.to_owned())
}

#[cfg(test)]
mod tests {
    use crate::{ExtractedText, Mime};

    fn read(markdown: &str) -> ExtractedText {
        crate::extract(Mime::MARKDOWN, markdown.as_bytes()).unwrap()
    }

    fn check(markdown: &str, expected: &str) {
        assert_eq!(read(markdown).text, expected);
    }

    #[test]
    fn formatting_marks_are_removed_from_the_text() {
        check(
            "A *fine* **day** for `code`, ~~old~~ [a link](http://x.y \"t\") &amp; \
             ![a chart](c.png).\nSame paragraph.\n\nNext\\\nline.",
            "A fine day for code, old a link & a chart. Same paragraph.\n\nNext\nline.",
        );
    }

    #[test]
    fn headings_have_their_offset_in_the_text() {
        let page = read("Intro\n\n# The *Guide*\n\ntext\n\nSetup\n-----\n\n### Deep `x`\n#\nend");
        let headings: Vec<_> = page.headings.iter().map(|h| (h.level, h.title.as_str())).collect();
        assert_eq!(headings, [(1, "The Guide"), (2, "Setup"), (3, "Deep x")]);
        for heading in &page.headings {
            assert!(page.text[heading.offset..].starts_with(&heading.title));
        }
        assert_eq!(page.title.as_deref(), Some("The Guide"));
    }

    #[test]
    fn code_is_unchanged_and_contains_no_headings() {
        let page = read("Run:\n\n```sh\n# not a heading\nmake  all\n\n  indented\n```\n\nDone.");
        assert_eq!(page.text, "Run:\n\n# not a heading\nmake  all\n\n  indented\n\nDone.");
        assert_eq!(page.headings, []);
    }

    #[test]
    fn lists_keep_their_markers() {
        check(
            "Bring:\n\n- tea\n- milk\n  1. cold\n  2. warm\n\n- [x] sugar\n\n  brown\n\nThen go.",
            "Bring:\n\n- tea\n- milk\n  1. cold\n  2. warm\n- [x] sugar\n\nbrown\n\nThen go.",
        );
    }

    #[test]
    fn a_table_becomes_one_line_per_row() {
        check(
            "| Name | Age |\n|---|--:|\n| Ann *B* | 42 |\n|  | 7 |\n\nafter",
            "Name | Age\nAnn B | 42\n| 7\n\nafter",
        );
    }

    #[test]
    fn front_matter_is_part_of_the_text_and_states_the_title() {
        let page = read("---\ntitle: \"Tea\"\ntags: [hot]\n---\n# Other\n");
        assert_eq!(page.text, "title: \"Tea\"\ntags: [hot]\n\nOther");
        assert_eq!(page.title.as_deref(), Some("Tea"));
    }

    #[test]
    fn embedded_html_is_extracted_as_html() {
        let page = read(
            "a<br>b <b>c</b>\n\n<h2>Big\n</h2><script>x()</script>\n\n<!-- no -->\n\nd[^1]\n\n[^1]: note",
        );
        assert_eq!(page.text, "a\nb c\n\nBig\n\nd\n\nnote");
        assert_eq!(page.headings[0].title, "Big");
    }

    #[test]
    fn deep_nesting_neither_overflows_nor_hangs() {
        for part in [">", "[", "*", "- ", "![", "> - ", "<div>"] {
            crate::extract(Mime::MARKDOWN, part.repeat(100_000).as_bytes()).unwrap();
        }
    }
}
