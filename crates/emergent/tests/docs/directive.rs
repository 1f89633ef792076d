//! What an HTML comment before a code block tells the test to do with the block.
//!
//! | directive | meaning |
//! |---|---|
//! | `file NAME` | write the block to this file, for a later `sh` block to use |
//! | `POST PATH`, `PUT`, `PATCH`, `DELETE` | send the block as the body; the response must be a 2xx, or the status after the path |
//! | `response` | the output before has these fields, with values of these kinds |
//! | `tool NAME` | the tool accepts the block as its input |
//! | `manifest` | `emergent product validate` accepts the block |
//! | `run: COMMAND` | the command succeeds; `$BLOCK` is a file that holds the block |
//! | `output` | the output before has these lines, in this order; `…` stands for any text |
//! | `fails` | the `sh` block ends with an error |
//! | `setup: COMMAND` | run this first, for what the page presumes; may also stand alone |
//! | `not run: REASON` | leave the block out; `main.rs` counts these |

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Directive {
    File(String),
    Request { method: String, path: String, status: Option<u16> },
    Response,
    Tool(String),
    Manifest,
    Run(String),
    Output,
    Fails,
    Setup(String),
    NotRun(String),
}

impl Directive {
    /// Reads `<!-- test: … -->`; `None` for any other line.
    pub fn parse(line: &str) -> Option<Result<Self, String>> {
        let text = line.trim().strip_prefix("<!--")?.trim_start().strip_prefix("test:")?;
        let Some(text) = text.strip_suffix("-->") else {
            return Some(Err("a directive has to fit on one line, and end with `-->`".to_owned()));
        };
        Some(Self::parse_text(text.trim()))
    }

    fn parse_text(text: &str) -> Result<Self, String> {
        let unknown = || format!("unknown directive `{text}`; tests/docs/directive.rs lists them");
        if let Some((name, argument)) = text.split_once(": ") {
            let argument = argument.trim().to_owned();
            return match name {
                "run" => Ok(Self::Run(argument)),
                "setup" => Ok(Self::Setup(argument)),
                "not run" => Ok(Self::NotRun(argument)),
                _ => Err(unknown()),
            };
        }
        let words: Vec<_> = text.split_whitespace().collect();
        match words[..] {
            ["response"] => Ok(Self::Response),
            ["manifest"] => Ok(Self::Manifest),
            ["output"] => Ok(Self::Output),
            ["fails"] => Ok(Self::Fails),
            ["tool", name] => Ok(Self::Tool(name.to_owned())),
            ["file", name] => Ok(Self::File(name.to_owned())),
            [method @ ("POST" | "PUT" | "PATCH" | "DELETE"), path, ref status @ ..] if status.len() < 2 => {
                let status =
                    status.first().map(|status| status.parse()).transpose().map_err(|_| unknown())?;
                Ok(Self::Request { method: method.to_owned(), path: path.to_owned(), status })
            }
            _ => Err(unknown()),
        }
    }
}

#[test]
fn a_directive_is_an_html_comment() {
    let check = |line, expected| assert_eq!(Directive::parse(line), Some(Ok(expected)), "{line}");
    check("<!-- test: file plan.yaml -->", Directive::File("plan.yaml".into()));
    check("<!-- test: not run: needs root -->", Directive::NotRun("needs root".into()));
    check("<!-- test: setup: export A=b: c -->", Directive::Setup("export A=b: c".into()));
    let request = |status| Directive::Request { method: "POST".into(), path: "/api/x".into(), status };
    check("<!-- test: POST /api/x -->", request(None));
    check("<!-- test: POST /api/x 409 -->", request(Some(409)));
    assert_eq!(Directive::parse("<!-- a remark -->"), None);
    assert!(Directive::parse("<!-- test: guess -->").is_some_and(|parsed| parsed.is_err()));
    assert!(Directive::parse("<!-- test: file a b -->").is_some_and(|parsed| parsed.is_err()));
}
