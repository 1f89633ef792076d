//! Makes cargo compile this crate again when the web UI was built again. It builds nothing itself, because
//! `cargo build` must need neither Node nor a network: `make build` builds the web UI before.

fn main() {
    // The folder is in every checkout, so cargo does not take it for one that is always new.
    println!("cargo::rerun-if-changed=../../web/dist");
    println!("cargo::rerun-if-changed=build.rs");
}
