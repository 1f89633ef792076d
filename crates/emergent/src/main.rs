//! The binary: what is configured, how the parts are put together, and the command line.

mod client;
mod commands;
mod config;
mod datadir;
mod error;
mod open;
mod output;
mod progress;
mod sample;
mod serve;

use clap::{Parser, Subcommand};
use tracing_subscriber::EnvFilter;

use crate::{
    client::{Client, ServerFlags},
    config::StoreFlags,
    error::{Error, Result},
    output::OutputFlags,
};

/// Many agents, one knowledge graph: nothing lost, nothing twice, everything explained.
#[derive(Debug, Parser)]
#[command(name = "emergent", version, propagate_version = true, max_term_width = 100)]
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
    /// Start the server
    Serve(serve::Serve),
    /// Look into the graph, fill it, take it along
    #[command(subcommand)]
    Graph(commands::graph::Graph),
    /// Who may do what
    #[command(subcommand)]
    Token(commands::token::Token),
    /// The tenants of a server
    #[command(subcommand)]
    Project(commands::project::Project),
    /// What is configured, what is reachable, what is wrong and the fix
    Doctor,
}

fn main() -> std::process::ExitCode {
    let cli = Cli::parse();
    start_logging(matches!(cli.command, Command::Serve(_)));
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: could not start: {error}");
            return std::process::ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(run(cli));
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    match done {
        Ok(()) => std::process::ExitCode::SUCCESS,
        // `emergent … | head` is not an error.
        Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            std::process::ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", error.tell());
            std::process::ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<()> {
    let json = cli.output.json;
    match cli.command {
        Command::Serve(serve) => serve.run(&cli.store).await,
        Command::Doctor => commands::doctor::run(&cli.store, json).await,
        Command::Graph(graph) => graph.run(&Client::connect(&cli.server, &cli.store).await?, json).await,
        Command::Token(token) => {
            let client = Client::connect(&cli.server, &cli.store).await?;
            token.run(&client, cli.server.project.as_deref(), json).await
        }
        Command::Project(project) => {
            project.run(&Client::connect(&cli.server, &cli.store).await?, json).await
        }
    }
}

/// The server tells what it does; other commands speak up only when something is wrong.
fn start_logging(server: bool) {
    let default = if server { "info" } else { "warn" };
    let filter = EnvFilter::try_from_env("EMERGENT_LOG").unwrap_or_else(|_| EnvFilter::new(default));
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if config::env("EMERGENT_LOG_FORMAT").as_deref() == Some("json") {
        logs.json().init();
    } else {
        logs.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init();
    }
}
