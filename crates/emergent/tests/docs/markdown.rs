//! Finds the code blocks of a page and the directives before them.

use crate::directive::Directive;

#[derive(Debug, PartialEq, Eq)]
pub enum Item {
    Block(Block),
    /// A `setup` directive that stands alone.
    Setup {
        line: usize,
        command: String,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub struct Block {
    /// The line of the opening fence, counted from 1.
    pub line: usize,
    pub language: String,
    pub text: String,
    pub directives: Vec<Directive>,
}

/// Lists what the test has to do, in the order of the page. An error has the line it is about.
pub fn items(page: &str) -> Result<Vec<Item>, (usize, String)> {
    let mut items = Vec::new();
    let mut pending: Vec<(usize, Directive)> = Vec::new();
    let mut lines = page.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((number, line)) = lines.next() {
        if let Some(fence) = Fence::open(line) {
            let mut text = String::new();
            loop {
                let Some((_, line)) = lines.next() else {
                    return Err((number, "this block is never closed".to_owned()));
                };
                if fence.is_closed_by(line) {
                    break;
                }
                text.push_str(fence.content(line));
                text.push('\n');
            }
            let directives = pending.drain(..).map(|(_, directive)| directive).collect();
            items.push(Item::Block(Block { line: number, language: fence.language, text, directives }));
        } else if let Some(directive) = Directive::parse(line) {
            pending.push((number, directive.map_err(|error| (number, error))?));
        } else if !line.trim().is_empty() {
            flush(&mut pending, &mut items)?;
        }
    }
    flush(&mut pending, &mut items)?;
    Ok(items)
}

/// Directives that no block follows: only `setup` may stand alone.
fn flush(pending: &mut Vec<(usize, Directive)>, items: &mut Vec<Item>) -> Result<(), (usize, String)> {
    for (line, directive) in pending.drain(..) {
        match directive {
            Directive::Setup(command) => items.push(Item::Setup { line, command }),
            _ => return Err((line, "no code block follows this directive".to_owned())),
        }
    }
    Ok(())
}

struct Fence {
    indent: usize,
    ticks: usize,
    language: String,
}

impl Fence {
    fn open(line: &str) -> Option<Self> {
        let inner = line.trim_start();
        let ticks = inner.len() - inner.trim_start_matches('`').len();
        let info = inner[ticks..].trim();
        (ticks >= 3 && !info.contains('`')).then(|| Self {
            indent: line.len() - inner.len(),
            ticks,
            language: info.split_whitespace().next().unwrap_or_default().to_owned(),
        })
    }

    fn is_closed_by(&self, line: &str) -> bool {
        let line = line.trim();
        line.len() >= self.ticks && line.bytes().all(|byte| byte == b'`')
    }

    /// A line without the indentation of the fence, which a block in a list has.
    fn content<'a>(&self, line: &'a str) -> &'a str {
        let indent = line.len() - line.trim_start_matches(' ').len();
        &line[indent.min(self.indent)..]
    }
}

#[test]
fn blocks_are_found_with_their_directives() {
    let page = "\
Text with ```ticks``` in it.
<!-- test: setup: export A=1 -->

More text.

<!-- test: file a.json -->
```json
{ \"a\": 1 }
```

- In a list:
  ```sh title
  echo one
    echo two
  ```
";
    let block = |line, language: &str, text: &str, directives| {
        Item::Block(Block { line, language: language.into(), text: text.into(), directives })
    };
    let expected = vec![
        Item::Setup { line: 2, command: "export A=1".into() },
        block(7, "json", "{ \"a\": 1 }\n", vec![Directive::File("a.json".into())]),
        block(12, "sh", "echo one\n  echo two\n", vec![]),
    ];
    assert_eq!(items(page), Ok(expected));
}

#[test]
fn a_directive_without_its_block_is_an_error() {
    let line = |page| items(page).expect_err("an error").0;
    assert_eq!(line("<!-- test: response -->\nText.\n```json\n{}\n```\n"), 1);
    assert_eq!(line("a\n```sh\nls\n"), 2);
    assert_eq!(line("a\n\n<!-- test: guess -->\n"), 3);
}
