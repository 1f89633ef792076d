//! The tests of this crate that use its public interface. They are one program, because linking
//! one program per file took longer than running the tests.

mod agents;
mod budget;
mod cancel;
mod compaction;
mod effects;
mod events;
mod fairness;
mod flows;
mod history;
mod incomplete_answers;
mod internal_agents;
mod isolation;
mod loops;
mod mcp_names;
mod mcp_servers;
mod model_choice;
mod provenance;
mod provider_errors;
mod recovery;
mod redact;
mod research;
mod resume;
mod run_limits;
mod runs;
mod slots;
mod spawn;
mod steps;
mod support;
mod timeouts;
mod tools;
mod triggers;
mod untriggered;
mod visibility;
