//! The examples in the help of commands. They are in one place, so that a test can parse each of them.

use clap::Command;

/// The path of a command, and commands that show what it is for. A `#` starts a remark.
const EXAMPLES: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "emergent demo                     # see five agents work, without a key",
            "emergent serve                    # start a server on ./data",
            "emergent product install emergent.code",
            "emergent dispatch 'Add tags to notes' --follow",
            "emergent doctor                   # what is configured, and what is wrong",
        ],
    ),
    (
        "serve",
        &[
            "emergent serve",
            "emergent serve --sample           # with a small graph and agents that answer questions about it",
            "emergent serve --listen 127.0.0.1:8080 --data-dir /srv/emergent",
        ],
    ),
    ("demo", &["emergent demo", "emergent demo --fresh", "emergent demo --model google/gemini-2.5-flash"]),
    ("agent create", &["emergent agent create researcher.yaml", "emergent agent create - < researcher.json"]),
    ("agent apply", &["emergent agent apply agents/researcher.yaml agents/writer.yaml"]),
    (
        "agent trigger",
        &[
            "emergent agent trigger researcher --input 'Which tags are there?' --follow",
            "emergent agent trigger researcher --input Hello --model openai/gpt-4o",
        ],
    ),
    ("run list", &["emergent run list --status failed", "emergent run list --agent researcher --limit 5"]),
    (
        "run resume",
        &[
            "emergent run resume last --follow",
            "emergent run resume 4f1c09ab --input 'Go on with the second part'",
        ],
    ),
    (
        "run revert",
        &[
            "emergent run revert last --dry-run",
            "emergent run revert 4f1c09ab --tree   # with all that it spawned",
        ],
    ),
    (
        "chat",
        &[
            "emergent chat                     # talk in the terminal; /help lists commands",
            "emergent chat --agent graph-query-agent",
            "emergent chat 'Who shaped early computing?'",
            "emergent chat 'And who came after her?' --conversation last",
            "emergent chat - --agent researcher --json < question.txt",
        ],
    ),
    ("conversation export", &["emergent conversation export last --format jsonl -o talk.jsonl"]),
    ("conversation rename", &["emergent conversation rename last 'Early computing'"]),
    (
        "dispatch",
        &[
            "emergent dispatch 'Add tags to notes' --follow",
            "emergent dispatch --tasks plan.yaml --dry-run",
            "emergent dispatch --tasks plan.yaml --budget-usd 2 --follow",
            "emergent dispatch --from-graph --where kind=research",
        ],
    ),
    (
        "workflow resume",
        &[
            "emergent workflow resume last --follow",
            "emergent workflow resume last --budget-usd 5 --note 'Keep it small'",
        ],
    ),
    (
        "workflow budget",
        &[
            "emergent workflow budget last --usd 5 --reason 'The review takes longer'",
            "emergent workflow budget last --none",
        ],
    ),
    (
        "task add",
        &[
            "emergent task add docs --workflow last --blocked-by implement",
            "emergent task add tidy --title 'Tidy the notes' --agent writer",
        ],
    ),
    ("task retry", &["emergent task retry last/design --note 'Use the small schema'"]),
    ("task reassign", &["emergent task reassign last/design spec-writer"]),
    (
        "discussion list",
        &["emergent discussion list --status escalated", "emergent discussion list --task last/design"],
    ),
    ("discussion decide", &["emergent discussion decide last APPROVED --reason 'It is good enough'"]),
    (
        "budget set",
        &[
            "emergent budget set --usd 20",
            "emergent budget set --agent writer --tokens 2000000",
            "emergent budget set --none",
        ],
    ),
    (
        "graph import",
        &["emergent graph import notes.ndjson", "emergent graph export | emergent graph import - -p copy"],
    ),
    ("graph export", &["emergent graph export -o notes.ndjson"]),
    (
        "graph search",
        &[
            "emergent graph search 'tagging patterns'",
            "emergent graph search ada --type Person --mode text",
            "emergent graph search 'Who founded Acme?' --mode linked --explain",
            "emergent graph search kettle --group part_of --budget-tokens 2000",
        ],
    ),
    (
        "eval retrieval",
        &["emergent eval retrieval questions.json", "emergent eval retrieval questions.json --mode hybrid"],
    ),
    ("graph traverse", &["emergent graph traverse Person/ada --depth 2 --direction out"]),
    ("object create", &["emergent object create Person ada --set name='Ada Lovelace' --set born=1815"]),
    (
        "object list",
        &["emergent object list --type Person", "emergent object list --as-of 2026-05-01T12:00:00Z"],
    ),
    ("object restore", &["emergent object restore Person/ada"]),
    ("object update", &["emergent object update Person/ada --set born=1815 --unset died"]),
    (
        "document add",
        &["emergent document add notes.md paper.pdf", "emergent document add notes.md --title 'My notes'"],
    ),
    (
        "document search",
        &[
            "emergent document search 'retry policy'",
            "emergent document search 'retry policy' --document notes.md --explain",
        ],
    ),
    ("pack add", &["emergent pack add people.json --assign"]),
    (
        "product install",
        &[
            "emergent product install emergent.memory",
            "emergent product install ./my-product --dry-run",
            "emergent product install github.com/acme/support --accept",
        ],
    ),
    (
        "token create",
        &[
            "emergent token create reader --scopes graph:read",
            "emergent token create ci --scopes graph:read,graph:write -p research",
        ],
    ),
    ("audit", &["emergent audit --action token", "emergent audit --since 2030-01-31T00:00:00Z --json"]),
    ("secret set", &["emergent secret set GITHUB_TOKEN < token.txt"]),
    (
        "project update",
        &[
            "emergent project update research --keep-runs 90d --auto-dispatch true",
            "emergent project update research --selection-rule kind:test=reviewer-agent",
            "emergent project update research --discussion-kind consensus",
        ],
    ),
    ("mcp-server add", &["emergent mcp-server add github.json"]),
    ("backup", &["emergent backup /srv/backups", "emergent backup copy.db --with-key"]),
    ("restore", &["emergent restore copy.db --data-dir restored"]),
    (
        "completions",
        &[
            "source <(emergent completions bash)",
            "emergent completions fish > ~/.config/fish/completions/emergent.fish",
        ],
    ),
];

/// Adds the examples to the help of their commands.
pub fn add_to(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, (path, lines)| {
        let names: Vec<&str> = path.split_whitespace().collect();
        add_at(command, &names, &format!("Examples:\n  {}", lines.join("\n  ")))
    })
}

fn add_at(command: Command, names: &[&str], text: &str) -> Command {
    match names {
        [] => command.after_help(text.to_owned()),
        [name, rest @ ..] => {
            let rest: Vec<String> = rest.iter().map(|name| (*name).to_owned()).collect();
            let text = text.to_owned();
            command.mut_subcommand(name, move |subcommand| {
                let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
                add_at(subcommand, &rest, &text)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words of the command in an example, without what the shell does with it.
    fn words(example: &str) -> Vec<String> {
        let start = example.find("emergent").expect("the program");
        let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
        for char in example[start..].chars() {
            match char {
                '\'' => quoted = !quoted,
                '|' | '<' | '>' | '#' | ')' if !quoted => break,
                ' ' if !quoted => words.push(std::mem::take(&mut word)),
                other => word.push(other),
            }
        }
        words.push(word);
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn every_example_parses_and_is_of_its_command() {
        for (path, examples) in EXAMPLES {
            for example in *examples {
                let words = words(example);
                let matches = crate::command().try_get_matches_from(&words);
                assert!(matches.is_ok(), "{example}: {:?}", matches.err().map(|error| error.to_string()));
                let line = words.join(" ");
                let (_, given) = line.split_once(' ').expect("a command");
                let last = path.split_whitespace().next_back().unwrap_or_default();
                assert!(given.starts_with(path) || example.contains(last), "{path}: {example}");
            }
        }
    }
}
