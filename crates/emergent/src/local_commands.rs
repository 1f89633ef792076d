//! Commands that work on this machine only and ask no server. `--server` and `--token` are flags of every command, so
//! these refuse them: whoever names a server and gets a copy of another data folder would find out when it is needed.

use clap::{ArgMatches, Command, parser::ValueSource};

use crate::{
    client::{self, ServerFlags},
    config::Settings,
    datadir, demo,
    error::{Error, Result},
    output,
};

/// Each command, with what it does instead of asking a server.
const LOCAL_COMMANDS: [(&str, &str); 5] = [
    ("backup", "reads the data folder of this machine (--data-dir)"),
    ("restore", "writes a data folder of this machine (--data-dir)"),
    ("serve", "starts a server on the data folder of this machine (--data-dir)"),
    ("demo", "plays in a data folder of this machine (--data-dir)"),
    ("embeddings", "asks the embedder that the settings of this machine name"),
];

/// The global flags that these commands do not have: id and name.
const SERVER_FLAGS: [(&str, &str); 2] = [("server", "--server"), ("token", "--token")];

/// Takes the flags out of the help of these commands, and says there what else differs. A subcommand that has an argument
/// of its own does not get the global one of the same name.
pub fn hide_server_flags(root: Command) -> Command {
    let is_hidden = |argument: &&clap::Arg| SERVER_FLAGS.iter().any(|(id, _)| argument.get_id() == id);
    let hidden: Vec<_> =
        root.get_arguments().filter(is_hidden).map(|argument| argument.clone().hide(true)).collect();
    let demo_folder = find(&root, "data_dir").map(|argument| {
        argument.help(format!(
            "Folder of the embedded database, the admin token and the keys [default: ./{}]",
            demo::DEFAULT_FOLDER
        ))
    });
    let json = find(&root, "json").map(|argument| argument.hide(true));
    LOCAL_COMMANDS
        .iter()
        .fold(root, |root, (name, _)| root.mut_subcommand(name, |command| command.args(hidden.clone())))
        .mut_subcommand("demo", |command| command.args(demo_folder))
        // What it prints at its start is for people.
        .mut_subcommand("serve", |command| command.args(json))
}

/// A copy of a global flag.
fn find(root: &Command, id: &str) -> Option<clap::Arg> {
    root.get_arguments().find(|argument| argument.get_id() == id).cloned()
}

/// Refuses a server or a token on the command line of one of these commands.
pub fn check_flags(matches: &ArgMatches) -> Result<()> {
    let Some((given, _)) = matches.subcommand() else { return Ok(()) };
    let Some((name, what)) = LOCAL_COMMANDS.iter().find(|(name, _)| *name == given) else { return Ok(()) };
    let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
    match SERVER_FLAGS.iter().find(|(id, _)| is_given(id)) {
        None => Ok(()),
        Some((_, flag)) => Err(Error::Usage(format!(
            "{name} {what} and asks no server: leave out {flag}, or run it on the machine of the server"
        ))),
    }
}

/// Says that the server of `EMERGENT_SERVER` is not asked, unless it is the one of the data folder. The variable is often
/// set for all commands of a terminal, so it is no reason to refuse one.
pub fn note_unused_server(command: &str, flags: &ServerFlags, settings: &Settings) {
    let Some(server) = &flags.server else { return };
    let running = datadir::running_server(&settings.data_dir).map(|running| running.address);
    if running.is_some() && client::base_url(server).ok() == running {
        return;
    }
    output::print_notice(&format!(
        "EMERGENT_SERVER ({server}) is not used: {command} works on the data folder `{}` of this machine.",
        settings.data_dir.display()
    ));
}
