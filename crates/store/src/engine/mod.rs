//! The two engines: how each opens, commits and reads. The code above them is the same for both.

mod notify;
pub(crate) mod postgres;
pub(crate) mod sqlite;
mod tls;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    Sqlite,
    Postgres,
}

impl Engine {
    pub fn name(self) -> &'static str {
        match self {
            Engine::Sqlite => "sqlite",
            Engine::Postgres => "postgres",
        }
    }
}
