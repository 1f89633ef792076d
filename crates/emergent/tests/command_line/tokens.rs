//! The token that a command uses: it is not revoked by mistake, and one that is refused is named with what to do.

use crate::common::{Home, command_output, failed, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_token_of_the_command_itself_is_revoked_only_on_purpose_and_is_named_afterwards() {
    let home = Home::sqlite().without_token();
    let server = home.start().await;
    let told = failed(&home.run(&["token", "revoke", "admin"]));
    for part in [
        "would revoke `admin`, the token that this command itself uses: add --yes",
        "stop the server, delete `data/admin-token`, and start it again",
    ] {
        assert!(told.contains(part), "{told}");
    }
    command_output(home.run(&["token", "create", "other", "--scopes", "graph:read"]));
    command_output(home.run(&["token", "revoke", "other"]));
    command_output(home.run(&["token", "create", "kept", "--scopes", "graph:read"]));

    let revoked = home.run(&["token", "revoke", "admin", "--yes"]);
    let told = text(&revoked.stderr);
    assert!(revoked.status.success(), "{told}");
    assert!(told.contains("--with-children`, with a token that is valid."), "{told}");
    assert!(told.contains("delete `data/admin-token`"), "{told}");

    let told = failed(&home.run(&["token", "list"]));
    assert!(told.contains("revoked or has expired; it is the one of `data/admin-token`: "), "{told}");
    assert!(told.contains("stop the server, delete this file, and start it again"), "{told}");
    let checked = text(&home.run(&["doctor"]).stdout);
    assert!(checked.contains("does not accept the token of `data/admin-token`"), "{checked}");
    assert!(
        checked.contains("delete this file, and start it again") && !checked.contains("log"),
        "{checked}"
    );

    server.kill();
    let again = home.start().await;
    let said = &again.launched.said;
    assert!(said.contains("was revoked or has expired"), "{said}");
    assert!(
        said.lines().filter(|line| !line.starts_with("http")).all(|line| line.chars().count() <= 80),
        "{said}"
    );
    again.kill();
    std::fs::remove_file(home.data().join("admin-token")).expect("the file is there");
    let renewed = home.start().await;
    command_output(home.run(&["token", "list"]));
    renewed.kill();
}

#[test]
fn a_given_token_is_revoked_by_itself_only_on_purpose() {
    let home = Home::sqlite();
    let created = home.run(&["token", "create", "mine", "--scopes", "admin:read,admin:write"]);
    let secret = command_output(created).trim().to_owned();
    let told = failed(&home.run(&["token", "revoke", "mine", "--token", &secret]));
    assert!(told.contains("Commands with the token of --token are refused then"), "{told}");
    command_output(home.run(&["token", "revoke", "mine"]));
}
