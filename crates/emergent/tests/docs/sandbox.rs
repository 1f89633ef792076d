//! The folder a page runs in: empty but for what a checkout of the repository has, with programs
//! that stand for those a reader has installed.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use crate::repository;

const PROGRAMS: &[(&str, &str)] = &[
    ("emergent", include_str!("programs/emergent")),
    ("cargo", include_str!("programs/cargo")),
    ("make", include_str!("programs/make")),
    ("curl", include_str!("programs/curl")),
    ("docker", include_str!("programs/docker")),
    ("npx", include_str!("programs/npx")),
    ("sudo", include_str!("programs/sudo")),
    ("systemctl", include_str!("programs/systemctl")),
];

/// What of the repository the examples may use: a reader follows them in a checkout.
const FROM_THE_REPOSITORY: &[&str] = &["docs", "packaging", "products", "scripts"];

pub struct Sandbox {
    root: tempfile::TempDir,
    /// The ports of the page's text and the free ones that replace them.
    ports: BTreeMap<u16, u16>,
}

impl Sandbox {
    pub fn new() -> Self {
        let root = tempfile::Builder::new().prefix("emergent-docs-").tempdir().expect("a temporary folder");
        let sandbox = Self { root, ports: BTreeMap::new() };
        for folder in ["bin", "blocks"] {
            fs::create_dir(sandbox.root.path().join(folder)).expect("a new folder");
        }
        for build in ["debug", "release"] {
            fs::create_dir_all(sandbox.folder().join("target").join(build)).expect("a new folder");
        }
        for (name, program) in PROGRAMS {
            let path = sandbox.root.path().join("bin").join(name);
            fs::write(&path, program).expect("a new file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("permissions");
        }
        for build in ["debug", "release"] {
            let path = sandbox.folder().join("target").join(build).join("emergent");
            symlink(sandbox.root.path().join("bin/emergent"), path).expect("a link");
        }
        for name in FROM_THE_REPOSITORY {
            symlink(repository().join(name), sandbox.folder().join(name)).expect("a link");
        }
        sandbox
    }

    /// The working directory of the page.
    pub fn folder(&self) -> PathBuf {
        self.root.path().join("page")
    }

    /// Where the test writes each block and its output.
    pub fn blocks(&self) -> PathBuf {
        self.root.path().join("blocks")
    }

    /// The log of the server that the page started last.
    pub fn server_log(&self) -> String {
        fs::read_to_string(self.root.path().join("server.log")).unwrap_or_default()
    }

    /// The free port that stands for the documented default port.
    pub fn port(&mut self) -> u16 {
        self.replacement(4400)
    }

    /// Replaces the ports 4400 to 4409, so that pages do not disturb one another or a server of the
    /// developer. Longer numbers, such as a port that was replaced before, stay.
    pub fn replace_ports(&mut self, text: &str) -> String {
        let mut parts = text.split(":440");
        let mut replaced = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.len() - part.trim_start_matches(|char: char| char.is_ascii_digit()).len();
            if digits == 1 {
                let port = format!("440{}", &part[..1]).parse().expect("four digits");
                replaced.push_str(&format!(":{}{}", self.replacement(port), &part[1..]));
            } else {
                replaced.push_str(&format!(":440{part}"));
            }
        }
        replaced
    }

    fn replacement(&mut self, port: u16) -> u16 {
        *self.ports.entry(port).or_insert_with(|| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            listener.local_addr().expect("its address").port()
        })
    }

    /// A command in the page's folder, in an environment that holds no settings of the developer.
    pub fn command(&mut self, program: &str) -> Command {
        let mut command = Command::new(program);
        let settings = std::env::vars_os().map(|(name, _)| name).filter(|name| {
            let name = name.to_string_lossy();
            ["EMERGENT_", "OTEL_", "GOOGLE_", "OLLAMA_"].iter().any(|prefix| name.starts_with(prefix))
                || ["_API_KEY", "_proxy", "_PROXY"].iter().any(|suffix| name.ends_with(suffix))
                || name == "DATABASE_URL"
        });
        for name in settings {
            command.env_remove(name);
        }
        let port = self.port();
        command
            .current_dir(self.folder())
            .env("PATH", path_with(&self.root.path().join("bin")))
            .env("DOCS_PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder())
            .env("EMERGENT_LISTEN", format!("127.0.0.1:{port}"))
            .env("DOCS_EMERGENT", env!("CARGO_BIN_EXE_emergent"))
            .env("DOCS_REPOSITORY", repository())
            .env("DOCS_STATE", self.root.path());
        command
    }
}

fn path_with(first: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(first.to_owned()).chain(std::env::split_paths(&path)))
        .expect("a PATH")
}

#[test]
fn only_documented_ports_are_replaced() {
    let mut sandbox = Sandbox::new();
    sandbox.ports = BTreeMap::from([(4400, 44018), (4401, 40001)]);
    let text = "http://127.0.0.1:4400/api localhost:4401 :44018 :440 :4400";
    let replaced = "http://127.0.0.1:44018/api localhost:40001 :44018 :440 :44018";
    assert_eq!(sandbox.replace_ports(text), replaced);
    assert_eq!(sandbox.replace_ports(replaced), replaced);
}
