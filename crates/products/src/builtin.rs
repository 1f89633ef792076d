//! The built-in products. Each has a rehearsal script, so that it can be tried without an API key:
//! `--model rehearsal/<product>`.

pub struct Builtin {
    pub name: &'static str,
    /// The text of `manifest.json`.
    pub manifest: &'static str,
    /// The script for `rehearsal/<name>`, in YAML.
    pub rehearsal: &'static str,
}

macro_rules! builtin {
    ($name:literal) => {
        Builtin {
            name: $name,
            manifest: include_str!(concat!("../../../products/", $name, "/manifest.json")),
            rehearsal: include_str!(concat!("../../../products/", $name, "/rehearsal.yaml")),
        }
    };
}

/// The product that `install-default-agents` installs.
pub const MEMORY: &str = "emergent.memory";

pub const ALL: [Builtin; 3] =
    [builtin!("emergent.memory"), builtin!("emergent.research"), builtin!("emergent.code")];

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|product| product.name)
}

/// Returns the manifest of a built-in product.
pub(crate) fn manifest_text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|product| product.name == name).map(|product| product.manifest)
}
