//! Runs one page from top to bottom, and stops at the first block that fails: later blocks build on
//! it.

use std::fs;

use serde_json::{Value, json};

use crate::{
    directive::Directive,
    markdown::{self, Block, Item},
    sandbox::Sandbox,
    shape,
    shell::Shell,
};

const SHELLS: &[&str] = &["sh", "bash", "shell"];
const DATA: &[&str] = &["json", "jsonl", "yaml", "yml", "toml"];
/// The version of MCP in which a request needs no session.
const MCP_VERSION: &str = "2026-07-28";
const TEXT: &[&str] = &["", "text"];

/// Runs the blocks of a page. An error says where it happened, what the block is and what it printed.
pub fn run(page: &str, text: &str) -> Result<(), String> {
    let items = markdown::items(text).map_err(|(line, error)| format!("{page}:{line}: {error}"))?;
    if items.is_empty() {
        return Ok(());
    }
    let mut run = PageRun::start(page);
    if needs_server(&items) && !starts_server(&items) {
        run.script(0, "emergent serve\nexport TOKEN=$(cat data/admin-token)")
            .map_err(|error| format!("{page}: the server for this page did not start: {error}"))?;
    }
    for item in &items {
        let (line, text, result) = match item {
            Item::Setup { line, command } => (line, command, run.script(*line - 1, command)),
            Item::Block(block) => (&block.line, &block.text, run.block(block)),
        };
        result.map_err(|error| {
            let log = run.sandbox.server_log();
            let lines: Vec<_> = log.lines().collect();
            let newest = lines[lines.len().saturating_sub(10)..].join("\n");
            format!("{page}:{line}: this does not work as written\n\n{text}\n{error}\nserver log:\n{newest}")
        })?;
    }
    Ok(())
}

fn blocks(items: &[Item]) -> impl Iterator<Item = &Block> {
    items.iter().filter_map(|item| match item {
        Item::Block(block) => Some(block),
        Item::Setup { .. } => None,
    })
}

fn needs_server(items: &[Item]) -> bool {
    blocks(items).any(|block| {
        let requests = block.directives.iter().any(|directive| match directive {
            Directive::Request { .. } | Directive::Tool(_) => true,
            Directive::Run(command) => command.contains(":4400"),
            _ => false,
        });
        requests || (SHELLS.contains(&&*block.language) && block.text.contains(":4400"))
    })
}

fn starts_server(items: &[Item]) -> bool {
    blocks(items).filter(|block| SHELLS.contains(&&*block.language)).any(|block| {
        block.text.contains("emergent serve")
            || block.text.contains("-- serve")
            || block.text.contains("make run")
    })
}

struct PageRun {
    // Before the sandbox: what runs in the folder stops before the folder goes.
    shell: Shell,
    sandbox: Sandbox,
    /// What the last script or request printed.
    output: String,
}

impl PageRun {
    fn start(page: &str) -> Self {
        let mut sandbox = Sandbox::new();
        let shell = Shell::start(&mut sandbox, page);
        Self { shell, sandbox, output: String::new() }
    }

    fn block(&mut self, block: &Block) -> Result<(), String> {
        if matches!(block.directives[..], [Directive::NotRun(_), ..]) {
            return Ok(());
        }
        let language = &*block.language;
        if SHELLS.contains(&language) {
            self.shell_block(block)
        } else if DATA.contains(&language) {
            parse(language, &block.text)?;
            let has_use = block.directives.iter().any(|it| !matches!(it, Directive::Setup(_)));
            if !has_use {
                return Err(format!(
                    "a {language} block needs a directive, such as `<!-- test: file NAME -->`, before it: \
                     tests/docs/directive.rs lists them"
                ));
            }
            block.directives.iter().try_for_each(|directive| self.apply(directive, block))
        } else if TEXT.contains(&language) {
            if block.text.lines().any(|line| line.trim_start().starts_with("$ ")) {
                return Err("commands belong in an `sh` block, without `$`, so that they are run".to_owned());
            }
            block.directives.iter().try_for_each(|directive| self.apply(directive, block))
        } else {
            Err(format!("no rule for blocks in `{language}`: {SHELLS:?}, {DATA:?} and {TEXT:?} have one"))
        }
    }

    fn shell_block(&mut self, block: &Block) -> Result<(), String> {
        let mut fails = false;
        for directive in &block.directives {
            match directive {
                Directive::Setup(command) => self.script(block.line, command)?,
                Directive::Fails => fails = true,
                other => return Err(format!("{other:?} is not for a block that is run")),
            }
        }
        if fails {
            let block_file = self.sandbox.blocks().join("fails.sh");
            let text = self.sandbox.replace_ports(&block.text);
            fs::write(&block_file, text).expect("a new file");
            let file = block_file.display();
            // In a shell of its own: the page goes on after it.
            self.script(
                block.line,
                &format!("! (trap - ERR EXIT; bash -eu -o pipefail '{file}') || {{ echo 'it succeeded' >&2; false; }}"),
            )
        } else {
            self.script(block.line, &block.text)
        }
    }

    fn apply(&mut self, directive: &Directive, block: &Block) -> Result<(), String> {
        let text = self.sandbox.replace_ports(&block.text);
        match directive {
            Directive::Setup(command) => self.script(block.line, command),
            Directive::File(name) => {
                let path = self.sandbox.folder().join(name);
                fs::create_dir_all(path.parent().expect("a folder")).expect("a new folder");
                fs::write(path, text).map_err(|error| error.to_string())
            }
            Directive::Request { method, path, status } => {
                let expected = status.map(|status| format!("--docs-status {status}")).unwrap_or_default();
                self.request(block, &format!("-X {method} {expected}"), path, &text)
            }
            Directive::Tool(name) => {
                let input = parse(&block.language, &text)?;
                let meta = json!({
                    "io.modelcontextprotocol/protocolVersion": MCP_VERSION,
                    "io.modelcontextprotocol/clientCapabilities": {},
                });
                let params = json!({ "name": name, "arguments": input, "_meta": meta });
                let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
                let headers = format!(
                    "-H 'MCP-Protocol-Version: {MCP_VERSION}' -H 'Mcp-Method: tools/call' -H 'Mcp-Name: {name}'"
                );
                self.request(block, &headers, "/mcp", &body.to_string())?;
                let response = shape::last_json(&self.output).unwrap_or_default();
                let accepted = response["result"].is_object() && response["result"]["isError"] != true;
                accepted.then_some(()).ok_or_else(|| format!("the tool answered: {response:#}"))
            }
            Directive::Response => {
                let example = parse(&block.language, &text)?;
                let actual = shape::last_json(&self.output)
                    .ok_or_else(|| format!("the output before has no JSON:\n{}", self.output))?;
                shape::compare(&example, &actual).map_err(|error| format!("{error}\nactual: {actual:#}"))
            }
            Directive::Manifest => {
                let file = self.keep(block, &text);
                self.script(block.line, &format!("emergent product validate '{file}'"))
            }
            Directive::Run(command) => {
                let file = self.keep(block, &text);
                self.script(block.line, &format!("BLOCK='{file}'\n{command}"))
            }
            Directive::Output => shape::compare_lines(&text, &self.output)
                .map_err(|error| format!("{error}\nactual:\n{}", self.output)),
            Directive::Fails | Directive::NotRun(_) => {
                Err(format!("{directive:?} is not for a block of data, or not the first directive"))
            }
        }
    }

    /// Sends a request with curl from the page's shell: the path may use variables of the page.
    fn request(&mut self, block: &Block, options: &str, path: &str, body: &str) -> Result<(), String> {
        let file = self.keep(block, body);
        let port = self.sandbox.port();
        self.script(
            block.line,
            &format!(
                "curl -sS \"http://127.0.0.1:{port}{path}\" {options} \
                 -H \"Authorization: Bearer $(cat data/admin-token)\" \
                 -H 'Content-Type: application/json' --data-binary @'{file}'"
            ),
        )
    }

    /// Writes a block to a file that is not in the page's folder.
    fn keep(&self, block: &Block, text: &str) -> String {
        let path = self.sandbox.blocks().join(format!("{}.{}", block.line, block.language));
        fs::write(&path, text).expect("a new file");
        path.display().to_string()
    }

    fn script(&mut self, line: usize, text: &str) -> Result<(), String> {
        let text = self.sandbox.replace_ports(text);
        let output = self.shell.run(line, &text);
        self.output = output.stdout;
        match output.failure {
            None => Ok(()),
            Some(failure) => Err(format!("{failure}\nstdout:\n{}\nstderr:\n{}", self.output, output.stderr)),
        }
    }
}

fn parse(language: &str, text: &str) -> Result<Value, String> {
    let error = |error: &dyn std::fmt::Display| format!("this is not {language}: {error}");
    match language {
        "json" => serde_json::from_str(text).map_err(|it| error(&it)),
        "jsonl" => {
            let lines = text.lines().map(serde_json::from_str);
            lines.collect::<Result<Vec<Value>, _>>().map(Value::Array).map_err(|it| error(&it))
        }
        "yaml" | "yml" => serde_saphyr::from_str(text).map_err(|it| error(&it)),
        "toml" => toml::from_str(text).map_err(|it| error(&it)),
        _ => Err(format!("{language} is not a format of data")),
    }
}

#[test]
fn what_a_block_sets_is_there_for_the_next() {
    let page = "\
```sh
mkdir inner && cd inner
greet() { echo \"{ \\\"hello\\\": \\\"$1\\\" }\"; }
NAME=Ada
```
```sh
greet \"$NAME\" | tee hello.txt
```
<!-- test: response -->
```json
{ \"hello\": \"someone\" }
```
<!-- test: output -->
```
{ … Ada … }
```
<!-- test: fails -->
```sh
test -f ../hello.txt
echo not reached
```
```sh
test -f hello.txt
```
";
    assert_eq!(run("page.md", page), Ok(()));
}

#[test]
fn a_page_that_does_not_work_is_an_error_with_its_line() {
    let check = |page: &str, expected: &str| {
        let error = run("page.md", page).expect_err(page);
        assert!(error.contains(expected), "{page}\n{error}");
    };
    check("a\n```sh\ntrue\nfalse\ntrue\n```\n", "page.md:4: `false` ended with status 1");
    check("```sh\nfalse | true\n```\n", "status 1");
    check("```sh\necho $NOT_SET\n```\n", "NOT_SET: unbound variable");
    check("```sh\nexit 0\n```\n", "it ended with an error");
    check("```sh\nemergent run list --no-such-flag\n```\n", "--no-such-flag");
    check("```sh\ncargo clippy\n```\n", "no rule for `cargo clippy`");
    check("```sh\nmake no-such-target\n```\n", "no-such-target");
    check("```sh\ncurl -s http://127.0.0.1:4400/api/no-such-route\n```\n", "ended with status 22");
    check("<!-- test: fails -->\n```sh\ntrue\n```\n", "it succeeded");
    check("```json\n{}\n```\n", "needs a directive");
    check("<!-- test: file a.json -->\n```json\n{ a: 1 }\n```\n", "this is not json");
    check("<!-- test: POST /api/graph/objects -->\n```json\n{}\n```\n", "\"success\":false");
    check("```\n$ emergent doctor\n```\n", "without `$`");
    check("```ini\na=1\n```\n", "no rule for blocks in `ini`");
}
