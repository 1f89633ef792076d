//! A world with one workflow in it: what the database holds, the runs under way, two servers.

mod agents;
mod case;
mod check;
mod database;
mod external_changes;
mod runs;
mod server;

use std::collections::BTreeMap;

pub use database::{Database, Decision, Refusal};
use emergent_domain::{ids::RunId, workflow::WorkflowStatus};
use rand::{Rng, rngs::StdRng};
use server::Server;

/// Long enough for anything that ends at all.
const MOST_MOMENTS: u64 = 2_000_000;
const LEASE: u64 = 9_000;
/// A workflow that has grown this far grows no more.
const MOST_TASKS: usize = 300;

pub struct Story {
    pub tasks: usize,
    pub attempts: usize,
    pub crashes: usize,
    /// completed, failed, cancelled, completed after a person helped
    pub end: usize,
}

pub struct World {
    pub now: u64,
    rng: StdRng,
    pub db: Database,
    servers: Vec<Server>,
    /// What happens when; the number tells equal moments apart.
    agenda: BTreeMap<(u64, u64), Event>,
    number: u64,
    crashes: usize,
    helped: usize,
    made: u32,
}

enum Event {
    Server(usize),
    RunEnds(RunId),
    Crash(usize),
    Outside,
}

impl World {
    fn plan_for(&mut self, after: u64, event: Event) {
        self.number += 1;
        self.agenda.insert((self.now + after, self.number), event);
    }

    /// From the first look to the end of the workflow.
    pub fn play(mut self) -> Story {
        let mut moments = 0;
        while !self.db.workflow.status.is_terminal() {
            moments += 1;
            assert!(moments < MOST_MOMENTS, "the workflow does not come to an end: {}", self.tell());
            let Some(((at, _), event)) = self.agenda.pop_first() else {
                panic!("nothing happens any more: {}", self.tell())
            };
            self.now = at;
            match event {
                Event::Server(which) => self.serve(which),
                Event::RunEnds(run) => self.run_ends(run),
                Event::Crash(which) => self.crash(which),
                Event::Outside => self.outside(),
            }
            self.check();
        }
        self.check_end();
        Story {
            tasks: self.db.tasks.len(),
            attempts: self.db.runs.len(),
            crashes: self.crashes,
            end: match self.db.workflow.status {
                WorkflowStatus::Completed if self.helped > 0 => 3,
                WorkflowStatus::Completed => 0,
                WorkflowStatus::Failed => 1,
                _ => 2,
            },
        }
    }

    fn serve(&mut self, which: usize) {
        let mut server = std::mem::replace(&mut self.servers[which], Server::new(which));
        let busy = server.turn(self);
        let wait = match (server.is_down(), busy) {
            (true, _) => self.rng.random_range(100..20_000),
            (_, true) => self.rng.random_range(1..50),
            // Nothing to do: woken by chance, within its lease.
            (_, false) => self.rng.random_range(100..4_000),
        };
        server.come_back();
        self.servers[which] = server;
        self.plan_for(wait, Event::Server(which));
    }

    fn crash(&mut self, which: usize) {
        self.crashes += 1;
        self.servers[which].crash();
        // Runs go on elsewhere: they have their own leases.
    }
}
