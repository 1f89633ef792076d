//! The files that install the program.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
};

use crate::common::{command_output, finish, text};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

fn make(target: &str, folder: &Path) {
    let mut command = Command::new("make");
    command
        .args(["--no-print-directory", "-C"])
        .arg(repository())
        .arg(target)
        .arg(format!("DESTDIR={}", folder.display()))
        .arg("PREFIX=/opt/emergent")
        .arg(format!("BIN={}", env!("CARGO_BIN_EXE_emergent")));
    command_output(finish(command));
}

#[test]
fn make_install_puts_everything_in_place_and_uninstall_removes_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    make("install", folder.path());
    let installed = folder.path().join("opt/emergent");
    let program = installed.join("bin/emergent");
    assert_eq!(fs::metadata(&program).expect("the program").permissions().mode() & 0o777, 0o755);
    let mut version = Command::new(&program);
    version.arg("--version");
    assert!(command_output(finish(version)).starts_with("emergent "));
    for completion in [
        "share/bash-completion/completions/emergent",
        "share/zsh/site-functions/_emergent",
        "share/fish/vendor_completions.d/emergent.fish",
    ] {
        let script = fs::read_to_string(installed.join(completion)).expect(completion);
        assert!(script.contains("workflow"), "{completion}");
    }
    let unit = installed.join("lib/systemd/system/emergent.service");
    let unit = fs::read_to_string(unit).expect("the unit");
    assert!(unit.contains("ExecStart=/opt/emergent/bin/emergent serve") && !unit.contains('@'), "{unit}");
    assert!(unit.contains("DynamicUser=yes"), "{unit}");
    // Programs need a home folder, and must not have the data folder for it.
    for line in ["StateDirectory=emergent", "CacheDirectory=emergent", "Environment=HOME=/var/cache/emergent"]
    {
        assert!(unit.lines().any(|other| other == line), "{line}");
    }
    let settings = installed.join("share/doc/emergent");
    let tls = fs::read_to_string(settings.join("tls.conf")).expect("the settings for TLS");
    assert!(tls.contains("LoadCredential=key.pem:") && tls.contains("EMERGENT_TLS_KEY=%d/key.pem"), "{tls}");
    let environment = fs::read_to_string(settings.join("environment")).expect("the settings");
    assert!(
        !environment.contains("EMERGENT_TLS_KEY="),
        "the user of the service cannot read it: {environment}"
    );

    make("uninstall", folder.path());
    let left: Vec<_> = files_below(folder.path());
    assert!(left.is_empty(), "{left:?}");
}

/// systemd is not everywhere where the tests run.
#[test]
fn systemd_accepts_the_unit_and_its_settings_for_tls() {
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let unit = fs::read_to_string(repository().join("packaging/emergent.service")).expect("the unit");
    // The program has to exist for the check.
    let unit = unit.replace("@PREFIX@/bin/emergent", env!("CARGO_BIN_EXE_emergent"));
    let (path, settings) = (folder.path().join("emergent.service"), folder.path().join("emergent.service.d"));
    fs::write(&path, unit).expect("a file");
    fs::create_dir(&settings).expect("a folder");
    fs::copy(repository().join("packaging/tls.conf"), settings.join("tls.conf")).expect("a file");
    let checked = Command::new("systemd-analyze").arg("verify").arg(&path).output().expect("a check");
    assert!(checked.status.success() && checked.stderr.is_empty(), "{}", text(&checked.stderr));
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

/// Docker is not there where the tests run, so the file is read.
#[test]
fn the_image_has_a_health_check_and_no_root() {
    let file = fs::read_to_string(repository().join("Dockerfile")).expect("the Dockerfile");
    let last_stage = &file[file.rfind("\nFROM ").expect("a stage")..];
    for line in ["USER 65532:65532", "HEALTHCHECK", "VOLUME /data", "\"health\"", "ENTRYPOINT"] {
        assert!(last_stage.contains(line), "{line}");
    }
    for argument in ["--release", "--locked", "-p emergent"] {
        assert!(file.contains(argument), "{argument}");
    }
    let ignored = fs::read_to_string(repository().join(".dockerignore")).expect(".dockerignore");
    for folder in ["data", "target", ".git"] {
        assert!(ignored.lines().any(|line| line == folder), "{folder}");
    }
}

#[test]
fn the_version_names_the_commit() {
    let mut version = Command::new(env!("CARGO_BIN_EXE_emergent"));
    version.arg("--version");
    let printed = command_output(finish(version));
    let git = Command::new("git").args(["rev-parse", "--git-dir"]).current_dir(repository()).output();
    if git.is_ok_and(|output| output.status.success() && !text(&output.stdout).is_empty()) {
        let commit = printed.trim_end().rsplit_once('(').expect("a commit").1.trim_end_matches(')');
        assert!(commit.len() >= 7 && commit.bytes().all(|byte| byte.is_ascii_hexdigit()), "{printed}");
    }
}
