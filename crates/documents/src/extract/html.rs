//! Extracts text from HTML as a stream of tags.
//!
//! The extractor builds no tree and only counts nested elements, so that neither deep nesting nor
//! broken markup causes problems. Where a browser would repair the tree, the text is nearly always
//! the same. The time is proportional to the length of the page. Pages that were made to take long are refused early:
//! see [`MAX_DEPTH`] and [`MAX_ATTRIBUTES`].

use super::ExtractedText;
use super::html_tokens::{HtmlToken, MAX_ATTRIBUTES, StartTag, TokenFilter, tokens};
use super::writer::{Gap, Writer};
use crate::error::Error;

/// More elements inside of each other do not come from a page: browsers stop at 512. Broken pages that never close
/// their elements are shorter.
const MAX_DEPTH: usize = 100_000;

/// Extracts the visible text of a page, without its scripts, styles and navigation.
pub(super) fn extract(html: &str) -> Result<ExtractedText, Error> {
    let mut writer = Writer::default();
    let title = write(html, &mut writer)?;
    let (text, headings) = writer.finish();
    Ok(ExtractedText { text, headings, title })
}

/// Writes the text of a page or of a fragment, and returns its title.
pub(super) fn write(html: &str, writer: &mut Writer) -> Result<Option<String>, Error> {
    let unclosed = unclosed_elements(html)?;
    let mut reader = Reader {
        writer,
        unclosed: &unclosed,
        skipped: None,
        preformatted_depth: 0,
        in_title: false,
        title: None,
    };
    for token in tokens(html, TokenFilter::All) {
        match token {
            HtmlToken::StartTag(tag) => reader.start_tag(&tag),
            HtmlToken::EndTag(name) => reader.end_tag(&name),
            HtmlToken::Text(text) => reader.text(&text),
            HtmlToken::TooManyAttributes => return Err(too_many_attributes()),
        }
    }
    reader.writer.end_heading();
    let title = reader.title.unwrap_or_default();
    let title = title.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok((!title.is_empty()).then_some(title))
}

fn too_many_attributes() -> Error {
    Error::TooManyAttributes { max: MAX_ATTRIBUTES }
}

/// Elements whose content is not visible text, and which the tokenizer treats as raw text.
const RAW_ELEMENTS: [&[u8]; 5] = [b"script", b"style", b"noscript", b"iframe", b"noembed"];

/// Elements whose content is markup but not part of the page's text.
const SKIPPED_ELEMENTS: [&[u8]; 5] = [b"nav", b"template", b"svg", b"select", b"noframes"];

/// Returns the elements of [`SKIPPED_ELEMENTS`] that are opened more often than they are closed.
/// Skipping one of them would skip the rest of the page. Refuses a page that is nested too deeply.
fn unclosed_elements(html: &str) -> Result<Vec<&'static [u8]>, Error> {
    let mut open = [0_i64; SKIPPED_ELEMENTS.len()];
    let mut depth = 0_usize;
    for token in tokens(html, TokenFilter::Tags) {
        let (name, change) = match &token {
            HtmlToken::StartTag(tag) if !tag.self_closing => (&tag.name, 1),
            HtmlToken::EndTag(name) => (name, -1),
            HtmlToken::StartTag(_) | HtmlToken::Text(_) => continue,
            HtmlToken::TooManyAttributes => return Err(too_many_attributes()),
        };
        if needs_end_tag(name) {
            depth = if change > 0 { depth + 1 } else { depth.saturating_sub(1) };
            if depth > MAX_DEPTH {
                return Err(Error::TooDeep { max: MAX_DEPTH });
            }
        }
        if let Some(index) = SKIPPED_ELEMENTS.iter().position(|skipped| *skipped == name.as_slice()) {
            open[index] = (open[index] + change).max(0);
        }
    }
    let names = SKIPPED_ELEMENTS.into_iter().zip(open);
    Ok(names.filter(|(_, open)| *open > 0).map(|(name, _)| name).collect())
}

/// Whether pages close the element. Others, such as paragraphs, are often left open, and are not nested by that.
fn needs_end_tag(name: &[u8]) -> bool {
    matches!(
        name,
        b"article"
            | b"aside"
            | b"blockquote"
            | b"center"
            | b"details"
            | b"div"
            | b"dl"
            | b"fieldset"
            | b"figure"
            | b"footer"
            | b"form"
            | b"header"
            | b"main"
            | b"menu"
            | b"nav"
            | b"ol"
            | b"section"
            | b"svg"
            | b"table"
            | b"template"
            | b"ul"
    )
}

/// Writes the text of the tags that it reads.
struct Reader<'a> {
    writer: &'a mut Writer,
    /// Elements that are not skipped, because their end tags are missing.
    unclosed: &'a [&'static [u8]],
    /// The element that is being skipped, and how many elements of that name are open.
    skipped: Option<(&'static [u8], usize)>,
    /// How many preformatted elements are open.
    preformatted_depth: usize,
    in_title: bool,
    title: Option<String>,
}

impl Reader<'_> {
    fn start_tag(&mut self, tag: &StartTag) {
        let name = tag.name.as_slice();
        if let Some((skipped, depth)) = &mut self.skipped {
            if *skipped == name && !tag.self_closing {
                *depth += 1;
            }
            return;
        }
        if let Some(element) = self.skipped_element(name) {
            self.writer.gap(Gap::Space);
            if !tag.self_closing {
                self.skipped = Some((element, 1));
            }
            return;
        }
        match name {
            b"title" => self.in_title = true,
            b"br" if self.preformatted_depth > 0 => self.writer.verbatim("\n"),
            b"br" => self.writer.gap(Gap::Line),
            b"img" => {
                if let Some(description) = &tag.alt {
                    self.writer.words(&String::from_utf8_lossy(description));
                }
            }
            b"ul" | b"menu" => self.writer.begin_list(None),
            b"ol" => {
                let start = tag.start.as_deref();
                let start = start.and_then(|start| std::str::from_utf8(start).ok()?.parse().ok());
                self.writer.begin_list(Some(start.unwrap_or(1)));
            }
            b"li" => self.writer.item(),
            b"table" => self.writer.begin_table(),
            b"tr" => self.writer.row(),
            b"td" | b"th" => self.writer.cell(),
            b"dd" | b"option" => self.writer.gap(Gap::Line),
            _ => match heading_level(name) {
                Some(level) => self.writer.begin_heading(level),
                None if is_block(name) => {
                    // A heading may contain a div but no other block element, so its end tag is
                    // missing.
                    if name != b"div" {
                        self.writer.end_heading();
                    }
                    self.writer.gap(Gap::Paragraph);
                    self.preformatted_depth += usize::from(is_preformatted(name));
                }
                None => {}
            },
        }
    }

    fn end_tag(&mut self, name: &[u8]) {
        if let Some((skipped, depth)) = &mut self.skipped {
            if *skipped == name {
                *depth -= 1;
                if *depth == 0 {
                    self.skipped = None;
                }
            }
            return;
        }
        match name {
            b"title" => self.in_title = false,
            b"ul" | b"ol" | b"menu" => self.writer.end_list(),
            b"table" => self.writer.end_table(),
            _ if heading_level(name).is_some() => self.writer.end_heading(),
            _ if is_block(name) => {
                self.writer.gap(Gap::Paragraph);
                let closes = usize::from(is_preformatted(name));
                self.preformatted_depth = self.preformatted_depth.saturating_sub(closes);
            }
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        if self.skipped.is_some() {
            return;
        }
        if self.in_title {
            // The first title counts. A second one is in the body by mistake.
            self.title.get_or_insert_default().push_str(text);
        } else if self.preformatted_depth > 0 {
            self.writer.verbatim(text);
        } else {
            self.writer.words(text);
        }
    }

    /// Returns the name if the content of this element is not part of the text.
    fn skipped_element(&self, name: &[u8]) -> Option<&'static [u8]> {
        let raw = RAW_ELEMENTS.into_iter();
        let markup = SKIPPED_ELEMENTS.into_iter().filter(|element| !self.unclosed.contains(element));
        raw.chain(markup).find(|element| *element == name)
    }
}

fn heading_level(name: &[u8]) -> Option<u8> {
    match name {
        [b'h', level @ b'1'..=b'6'] => Some(level - b'0'),
        _ => None,
    }
}

fn is_preformatted(name: &[u8]) -> bool {
    matches!(name, b"pre" | b"xmp" | b"listing" | b"plaintext" | b"textarea")
}

fn is_block(name: &[u8]) -> bool {
    is_preformatted(name)
        || matches!(
            name,
            b"address"
                | b"article"
                | b"aside"
                | b"blockquote"
                | b"body"
                | b"caption"
                | b"center"
                | b"details"
                | b"dialog"
                | b"div"
                | b"dl"
                | b"dt"
                | b"fieldset"
                | b"figcaption"
                | b"figure"
                | b"footer"
                | b"form"
                | b"header"
                | b"hr"
                | b"legend"
                | b"main"
                | b"p"
                | b"section"
                | b"summary"
        )
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use crate::{ExtractedText, Mime};

    fn read(html: &str) -> ExtractedText {
        crate::extract(Mime::HTML, html.as_bytes()).unwrap()
    }

    fn check(html: &str, expected: &str) {
        assert_eq!(read(html).text, expected, "{html}");
    }

    const PAGE: &str = r#"<!DOCTYPE html>
<html lang="en"><head>
  <meta charset="utf-8"><title>Brewing &mdash; Tea
  House</title>
  <style>p > b { color: red }</style>
  <script>if (a < b && "</p>") document.write("<h1>no</h1>");</script>
</head><body>
  <nav><ul><li><a href="/">Home</a></li></ul></nav>
  <main>
    <h1>Brewing <em>tea</em></h1>
    <p>Steep for <b>3</b>&nbsp;minutes &amp; pour.<br>Serve&hellip;
    <noscript><p>Enable JavaScript</p></noscript></p>
    <h2>You need</h2>
    <ol start="2"><li>a <i>pot</i></li><li><p>water</p><ul><li>hot</li></ul></li></ol>
    <table><thead><tr><th>Tea<th>Minutes</tr></thead>
      <tr><td><p>Green</p></td><td><p>2</p></td></tr>
      <tr><td></td><td>5</td></tr></table>
    <pre><code>let x = 1;

  <span>pour</span>(x);
</code></pre>
    <svg><title>icon</title><text>no</text></svg>
    <template><p>no</p></template>
    <img src="x.png" alt="A cup">
  </main>
</body></html>"#;

    #[test]
    fn a_page_is_extracted_as_it_is_displayed() {
        let page = read(PAGE);
        assert_eq!(
            page.text,
            "Brewing tea\n\nSteep for 3 minutes & pour.\nServe…\n\nYou need\n\n2. a pot\n3. water\n  \
             - hot\n\nTea | Minutes\nGreen | 2\n| 5\n\nlet x = 1;\n\n  pour(x);\n\nA cup"
        );
        assert_eq!(page.title.as_deref(), Some("Brewing — Tea House"));
        let headings: Vec<_> = page.headings.iter().map(|h| (h.level, h.title.as_str())).collect();
        assert_eq!(headings, [(1, "Brewing tea"), (2, "You need")]);
        for heading in &page.headings {
            assert!(page.text[heading.offset..].starts_with(&heading.title));
        }
    }

    #[test]
    fn inline_elements_do_not_break_words() {
        check("<p>un<b>believ</b>able <i> spaced </i> out</p>", "unbelievable spaced out");
        check("hy&shy;phen", "hyphen");
    }

    #[test]
    fn broken_markup_is_extracted_as_well_as_possible() {
        check("<p>a<p>b</i></b><b>c", "a\n\nbc");
        check("a < b <3 &nosuch; & <", "a < b <3 &nosuch; & <");
        check("<td>loose</td><li>item</table></ul></ul>end", "loose\n- item\n\nend");
        check("<", "<");
        check("", "");
    }

    #[test]
    fn a_skipped_element_without_an_end_tag_does_not_hide_the_rest_of_the_page() {
        check("<nav><a>Home</a><main><p>Text</p></main>", "Home\n\nText");
        check("a<script>x()", "a");
        check("<nav>a<nav>b</nav>c</nav>d<nav/>e", "d e");
    }

    #[test]
    fn a_heading_without_an_end_tag_ends_at_the_next_block() {
        let page = read("<h2>Title<p>Some text<h3><div>Sub</div></h3>more");
        assert_eq!(page.text, "Title\n\nSome text\n\nSub\n\nmore");
        assert_eq!(page.headings.len(), 2);
        let long = format!("<h1>{}", "word ".repeat(1000));
        assert_eq!(read(&long).headings, []);
    }

    #[test]
    fn deep_nesting_neither_overflows_nor_hangs() {
        let start = Instant::now();
        read(&"<div>".repeat(100_000));
        for tag in ["div", "table><tr><td", "ul><li", "nav", "h1", "pre", "svg", "b"] {
            let open = format!("<{tag}>").repeat(10_000);
            let closed: String = tag.rsplit("><").map(|tag| format!("</{tag}>")).collect();
            let page = read(&format!("{open}deep{}", closed.repeat(10_000)));
            match tag {
                "nav" | "svg" => assert_eq!(page.text, ""),
                _ => assert!(page.text.ends_with("deep") && page.text.len() < 100),
            }
            read(&open);
        }
        assert!(start.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_page_that_was_made_to_take_long_is_refused() {
        let refused = |html: &str| {
            let start = Instant::now();
            let error = crate::extract(Mime::HTML, html.as_bytes()).unwrap_err().to_string();
            assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
            error
        };
        let nested = refused(&"<div>".repeat(400_000));
        assert_eq!(nested, "the HTML has more than 100000 elements inside of each other: it is not a page");
        let attributes: String = (0..500_000).map(|number| format!(" a{number}")).collect();
        let tag = refused(&format!("<p{attributes}>text"));
        assert_eq!(tag, "the HTML has a tag with more than 10000 attributes: it is not a page");
        // Elements whose end tags may be missing, or that follow one another, are not nested.
        assert!(read(&"<p>a".repeat(150_000)).text.starts_with("a\n\na"));
        assert_eq!(read(&"<div></div>".repeat(150_000)).text, "");
        let markdown = format!("{}\n", "<div>".repeat(150_000));
        assert!(crate::extract("text/markdown".parse().unwrap(), markdown.as_bytes()).is_err());
    }
}
