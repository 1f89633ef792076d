//! The products that come with the program, each with a rehearsal, so that it can be tried without
//! a key: `--model rehearsal/<product>`.

pub struct Builtin {
    pub name: &'static str,
    /// The text of its `manifest.json`.
    pub manifest: &'static str,
    /// A script for `rehearsal/<name>`, in YAML.
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

/// The one that every project can have by `install-default-agents`.
pub const MEMORY: &str = "emergent.memory";

pub const ALL: [Builtin; 3] =
    [builtin!("emergent.memory"), builtin!("emergent.research"), builtin!("emergent.code")];

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|one| one.name)
}

/// The manifest of a built-in product.
pub(crate) fn manifest_text(name: &str) -> Option<&'static str> {
    ALL.iter().find(|one| one.name == name).map(|one| one.manifest)
}
