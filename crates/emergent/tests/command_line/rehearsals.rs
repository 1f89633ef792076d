//! Where rehearsal scripts are looked for: the folders of whoever calls the models count.

use crate::{
    ECHO,
    common::{Home, command_output, failed, finish, text},
    home_with_agent, write,
};

const SCRIPT: &str = "rules:\n  - when: {}\n    answer: { text: found }\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_folder_of_the_server_is_named_and_never_the_same_script() {
    let home = Home::sqlite().with("EMERGENT_REHEARSALS", "/no-such-folder");
    write(&home, "echo.json", ECHO);
    command_output(home.run(&["agent", "apply", "echo.json"]));
    let server = home.start().await;
    let log = server.launched.log();
    assert!(log.contains("/no-such-folder, which EMERGENT_REHEARSALS names, does not exist"), "{log}");
    let own = home.folder().join("own");
    std::fs::create_dir_all(&own).expect("a folder");
    std::fs::write(own.join("zz.yaml"), SCRIPT).expect("a file");
    let run = |args: &[&str]| {
        let mut command = home.command(args);
        command.env("EMERGENT_REHEARSALS", &own);
        finish(command)
    };
    let told = failed(&run(&["agent", "trigger", "echo", "--input", "x", "--model", "rehearsal/zz"]));
    assert!(
        told.contains("there is no rehearsal script `zz`; put `zz.yaml` into `/no-such-folder`"),
        "{told}"
    );
    let checked = text(&run(&["doctor"]).stdout);
    let words = checked.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("looks for rehearsal scripts in /no-such-folder, which is no folder"),
        "{checked}"
    );
    server.kill();
}

#[test]
fn a_planner_without_its_script_is_not_given_one_that_cannot_plan() {
    let home = home_with_agent();
    let told = failed(&home.run(&["dispatch", "x", "--planner", "echo", "--model", "rehearsal/nope"]));
    assert!(told.contains("there is no rehearsal script `nope`"), "{told}");
    assert!(told.contains("a rehearsal script that creates tasks can plan"), "{told}");
    assert!(!told.contains("`rehearsal/echo`"), "{told}");
}
