//! The `emergent` binary: parses the command line, sets up logging and telemetry, and runs one command.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::expect_used, clippy::unwrap_used))]

mod allocator;
mod build_info;
mod cells;
mod client;
mod commands;
mod config;
mod dag;
mod database_error;
mod datadir;
mod demo;
mod error;
mod examples;
mod file_fields;
mod hints;
mod keys;
mod local_commands;
mod lock_holder;
mod logs;
mod messages;
mod output;
mod printable;
mod private_files;
mod progress;
mod sample;
mod serve;
mod server_file;
mod services;
mod settings_report;
mod table;
mod telemetry;
mod text;
mod usage;
mod usage_error;
mod values;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use tracing_subscriber::{Layer, Registry, layer::SubscriberExt, util::SubscriberInitExt};

use crate::{
    client::{Client, DataAccess, ServerFlags},
    config::StoreFlags,
    error::{Error, Result},
    output::OutputFlags,
    telemetry::Telemetry,
};

/// The exit code after Ctrl-C, as shells have it: 128 and the number of the signal.
const INTERRUPTED_EXIT_CODE: u8 = 130;
/// How long the end of the process waits for blocking tasks, such as a read of standard input.
const RUNTIME_SHUTDOWN_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

/// Many agents, one knowledge graph: nothing lost, nothing twice, everything explained.
#[derive(Debug, Parser)]
#[command(name = "emergent", version = build_info::VERSION, propagate_version = true, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    server: ServerFlags,
    #[command(flatten)]
    store: StoreFlags,
    #[command(flatten)]
    output: OutputFlags,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Serve),
    Demo(commands::demo::Demo),
    /// Print what happens in the project: runs, workflows and changes of the graph
    Watch(commands::watch::Watch),
    /// Define agents, start them, watch them work
    #[command(subcommand)]
    Agent(commands::agent::Agent),
    /// List, inspect, cancel, resume and revert runs
    #[command(subcommand)]
    Run(commands::run::Run),
    Chat(commands::chat::Chat),
    /// List, show, export, rename and delete conversations
    #[command(subcommand)]
    Conversation(commands::conversation::Conversation),
    Dispatch(commands::dispatch::Dispatch),
    /// List, show, follow, cancel and resume workflows, and change their budgets
    #[command(subcommand)]
    Workflow(commands::workflow::Workflow),
    /// List, show, add, retry, reassign and skip tasks
    #[command(subcommand)]
    Task(commands::task::Task),
    /// List and show discussions, and decide escalated ones
    #[command(subcommand)]
    Discussion(commands::discussion::Discussion),
    /// List what waits for a person, and approve, deny or answer it
    #[command(subcommand)]
    Inbox(commands::inbox::Inbox),
    /// Show and set what a project and its agents may spend in a day
    #[command(subcommand)]
    Budget(commands::budget::Budget),
    /// List, save, delete, pause and resume triggers, and list what they fired
    #[command(subcommand)]
    Trigger(commands::trigger::Trigger),
    /// Search, traverse, import and export the knowledge graph
    #[command(subcommand)]
    Graph(commands::graph::Graph),
    /// List, create, change, delete and restore objects of the graph
    #[command(subcommand)]
    Object(commands::object::Object),
    /// List, create, delete and restore relationships, and list their versions
    #[command(subcommand)]
    Relationship(commands::relationship::Relationship),
    /// Add, list, show and delete documents
    #[command(subcommand)]
    Document(commands::document::Document),
    /// Add, list, show and assign template packs, which validate the graph
    #[command(subcommand)]
    Pack(commands::pack::Pack),
    /// List and show the tools that agents can use
    #[command(subcommand)]
    Tool(commands::tool::Tool),
    /// Install, upgrade and uninstall products
    #[command(subcommand)]
    Product(commands::product::Product),
    /// Create, list and revoke API tokens
    #[command(subcommand)]
    Token(commands::token::Token),
    /// Print a link to the web UI of the running server that logs a browser in, once
    LoginLink,
    Audit(commands::audit::Audit),
    /// Set, delete and rotate the secrets of external servers
    #[command(subcommand)]
    Secret(commands::secret::Secret),
    /// Create, list, change and delete projects, the tenants of a server
    #[command(subcommand)]
    Project(commands::project::Project),
    /// Add, inspect and remove external MCP servers, whose tools the project's agents can use
    #[command(subcommand)]
    McpServer(commands::mcp_server::McpServer),
    /// Serve MCP on stdio, for clients that start this program themselves
    #[command(after_help = commands::mcp::CLIENT_CONFIGURATION)]
    Mcp,
    Backup(commands::backup::Backup),
    Restore(commands::backup::restore::Restore),
    /// Check what is configured and reachable, and print how to fix what is wrong
    ///
    /// The mark of a line is its level: ✓ and – are `ok`, ! is a `warning`, ✗ is an `error`. With --json, each finding
    /// has it as `level`; `ok` is false for an error only. The command exits with 1 if there is an error, and with 0
    /// otherwise, whatever the warnings.
    Doctor,
    /// Check that a server answers and can use its database, for health checks of containers
    Health,
    /// Print the completions of a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Measure how the configured embedder tells similar texts from others
    #[command(subcommand)]
    Embeddings(commands::embeddings::Embeddings),
    /// Measure how well searches find what it takes to answer
    #[command(subcommand)]
    Eval(commands::eval::Eval),
    /// Extract the text of a document on standard input; the server starts this for each document
    #[command(name = emergent_graph::documents::extraction::COMMAND, hide = true)]
    ExtractDocument {
        /// The type of the document
        media_type: String,
    },
}

/// The command line with its examples. The flags that every command has are a section of their own in the help.
fn command() -> clap::Command {
    let command = Cli::command().mut_args(|argument| match argument.is_global_set() {
        true => argument.help_heading("Global options"),
        false => argument,
    });
    examples::add_to(local_commands::hide_server_flags(command))
}

/// Keeps other programs of the same user, such as MCP servers that it starts, from reading the
/// memory and environment of this process, which hold keys and tokens. As a side effect, no core file is written.
fn protect_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        tracing::warn!(%error, "programs of the same user can read this process's memory");
    }
}

fn main() -> std::process::ExitCode {
    allocator::return_large_buffers();
    #[cfg(target_os = "linux")]
    if let Some(code) = emergent_mcp::client::run_supervisor_if_requested(std::env::args_os()) {
        return code;
    }
    let parser = usage::fit(command(), output::terminal_width());
    let matches = match parser.clone().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => return usage_error::report(&parser, error),
    };
    hints::set_flags(&matches);
    messages::set_flags(&parser, &matches);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command()).exit());
    if let Command::ExtractDocument { media_type } = &cli.command {
        return commands::extract_document::run(media_type);
    }
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: could not start: {error}");
            return std::process::ExitCode::FAILURE;
        }
    };
    let telemetry = Telemetry::from_env(runtime.handle());
    start_logging(default_log_level(&cli.command), &telemetry);
    telemetry.log_problems();
    protect_memory();
    let outcome = local_commands::check_flags(&matches).and_then(|()| runtime.block_on(run(cli)));
    telemetry.shutdown();
    runtime.shutdown_timeout(RUNTIME_SHUTDOWN_TIMEOUT);
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        // The reader of the output ended first, as in `emergent … | head`: that is not an error.
        Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            std::process::ExitCode::SUCCESS
        }
        Err(Error::Interrupted) => std::process::ExitCode::from(INTERRUPTED_EXIT_CODE),
        Err(declined @ Error::Declined) => {
            output::print_notice(&declined.to_string());
            std::process::ExitCode::FAILURE
        }
        Err(error) => {
            let text = format!("error: {}", logs::redactor().redact_text(&error.describe()));
            match error {
                Error::OtherPrograms(_) => output::print_error_with_commands(&text),
                _ => output::print_error(&text),
            }
            std::process::ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<()> {
    use DataAccess::Existing;
    let json = cli.output.json;
    let connect = |access| Client::connect(&cli.server, &cli.store, access);
    match cli.command {
        Command::Serve(serve) => serve.run(&cli.store).await,
        Command::Demo(demo) => demo.run(&cli.store, json).await,
        Command::Mcp => commands::mcp::run(&cli.server, &cli.store).await,
        Command::Backup(backup) => backup.run(&cli.server, &cli.store, json).await,
        Command::Restore(restore) => restore.run(&cli.server, &cli.store, json).await,
        Command::Doctor => commands::doctor::run(&cli.server, &cli.store, json).await,
        Command::Health => commands::health::run(&cli.server, &cli.store, json).await,
        Command::Completions { shell } => commands::completions::print(shell, &mut command()),
        Command::Embeddings(embeddings) => embeddings.run(&cli.store, json).await,
        // `main` runs it without a runtime.
        Command::ExtractDocument { .. } => Ok(()),
        Command::Product(product) => product.run(&cli.server, &cli.store, json).await,
        Command::Agent(agent) => {
            agent.check_input()?;
            let client = connect(agent.data_access()).await?;
            agent.run(&client, json).await
        }
        Command::Eval(eval) => eval.run(&connect(Existing).await?, json).await,
        Command::Watch(watch) => watch.run(&connect(Existing).await?, json).await,
        Command::Run(run) => run.run(&connect(Existing).await?, json).await,
        Command::Chat(chat) => chat.run(&connect(Existing).await?, json).await,
        Command::Conversation(conversation) => conversation.run(&connect(Existing).await?, json).await,
        Command::Dispatch(dispatch) => dispatch.run(&connect(Existing).await?, json).await,
        Command::Workflow(workflow) => workflow.run(&connect(Existing).await?, json).await,
        Command::Task(task) => task.run(&connect(Existing).await?, json).await,
        Command::Discussion(discussion) => discussion.run(&connect(Existing).await?, json).await,
        Command::Inbox(inbox) => inbox.run(&connect(Existing).await?, json).await,
        Command::Budget(budget) => {
            budget.check_input()?;
            let client = connect(budget.data_access()).await?;
            budget.run(&client, json).await
        }
        Command::Trigger(trigger) => trigger.run(&connect(Existing).await?, json).await,
        Command::Graph(graph) => {
            graph.check_file()?;
            let client = connect(graph.data_access()).await?;
            graph.run(&client, json).await
        }
        Command::Object(object) => {
            object.check_input()?;
            let client = connect(object.data_access()).await?;
            object.run(&client, json).await
        }
        Command::Relationship(relationship) => relationship.run(&connect(Existing).await?, json).await,
        Command::Document(document) => {
            document.check_input()?;
            let client = connect(document.data_access()).await?;
            document.run(&client, json).await
        }
        Command::Pack(pack) => {
            pack.check_input()?;
            let client = connect(pack.data_access()).await?;
            pack.run(&client, json).await
        }
        Command::Tool(tool) => tool.run(&connect(Existing).await?, json).await,
        Command::Token(token) => {
            token.check_input()?;
            let client = connect(token.data_access()).await?;
            token.run(client, cli.server.project.as_deref(), json).await
        }
        Command::LoginLink => commands::login_link::run(&connect(Existing).await?, json).await,
        Command::Audit(audit) => audit.run(&connect(Existing).await?, json).await,
        Command::McpServer(server) => {
            server.check_input()?;
            let client = connect(server.data_access()).await?;
            server.run(&client, json).await
        }
        Command::Secret(secret) => {
            let secret = secret.read_value()?;
            let client = connect(secret.data_access()).await?;
            secret.run(&client, json).await
        }
        Command::Project(project) => {
            project.check_input()?;
            let client = connect(project.data_access()).await?;
            project.run(&client, json).await
        }
    }
}

/// The level from which a command logs. Most commands tell people themselves what concerns them, such as a server that
/// cannot be reached: the same as a line of the log would stand among their output.
fn default_log_level(command: &Command) -> &'static str {
    match command {
        Command::Serve(_) => "info",
        // Its client shows the log, and nothing else of its output is read by people.
        Command::Mcp => "warn",
        _ => "error",
    }
}

/// Sets up logging to stderr, from the given level on unless `EMERGENT_LOG`, or `log` in the file, sets another filter.
#[expect(clippy::expect_used, reason = "the directive is built from a constant, so it always parses")]
fn start_logging(default: &str, telemetry: &Telemetry) {
    let (filter, format) = config::log_settings();
    let filter = logs::filter(filter.as_deref(), default);
    // Spans of agents may carry prompts and answers: they are exported as telemetry and never logged.
    let agent_spans_off = format!("{}=off", telemetry::TARGET).parse().expect("the directive parses");
    let filter = filter.add_directive(agent_spans_off);
    let logs = tracing_subscriber::fmt::layer::<Registry>().with_writer(logs::RedactingWriter);
    let logs = if format.as_deref() == Some("json") {
        logs.json().with_filter(filter).boxed()
    } else {
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        logs.with_ansi(is_terminal).with_filter(filter).boxed()
    };
    let layers: Vec<_> = [Some(logs), telemetry.layer()].into_iter().flatten().collect();
    tracing_subscriber::registry().with(layers).init();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls `visit` for each visible command, with its path such as `run show`.
    fn visit_commands(command: &clap::Command, path: &str, visit: &mut impl FnMut(&str, &clap::Command)) {
        visit(path, command);
        for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
            let path = format!("{path} {}", subcommand.get_name());
            visit_commands(subcommand, path.trim_start(), visit);
        }
    }

    #[test]
    fn every_command_and_argument_has_a_help_text() {
        let mut gaps = Vec::new();
        visit_commands(&command(), "", &mut |path, command| {
            if command.get_about().is_none() {
                gaps.push(format!("`{path}`"));
            }
            let arguments = command.get_arguments().filter(|argument| !argument.is_hide_set());
            for argument in arguments.filter(|argument| argument.get_help().is_none()) {
                gaps.push(format!("`{path}`: {}", argument.get_id()));
            }
        });
        assert!(gaps.is_empty(), "without a help text:\n{}", gaps.join("\n"));
    }

    #[test]
    fn no_argument_has_the_name_of_a_global_flag() {
        // Its value would silently replace that of the flag.
        let root = command();
        let globals: Vec<_> = root.get_arguments().map(|argument| argument.get_id().clone()).collect();
        visit_commands(&root, "", &mut |path, command| {
            // A global flag that a command hides is that flag itself.
            let own = command.get_arguments().filter(|argument| !argument.is_global_set());
            for argument in own.filter(|_| !path.is_empty()) {
                assert!(!globals.contains(argument.get_id()), "`{path}`: {}", argument.get_id());
            }
        });
    }

    #[test]
    fn every_help_text_fits_a_terminal_of_80_columns() {
        let mut wide = Vec::new();
        // The width of a help text is set at the root only.
        let mut root = command().term_width(80);
        root.build();
        visit_commands(&root, "", &mut |path, command| {
            for help in [command.clone().render_help(), command.clone().render_long_help()] {
                let help = help.to_string();
                let lines = help.lines().filter(|line| line.chars().count() > 80);
                wide.extend(lines.map(|line| format!("`{path}`: {line}")));
            }
        });
        assert!(wide.is_empty(), "{}", wide.join("\n"));
    }

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }
}
