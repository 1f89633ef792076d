//! Random workflows on real engines: two servers walk them, agents behave by chance, and in the
//! middle one server dies and another takes its place. Afterwards the database tells whether the
//! rules were kept. `EMERGENT_SEED` repeats a case: the same tasks and the same answers, in whatever
//! order the machine makes of them. `EMERGENT_CASES` sets how many there are.

mod case;
mod client;
mod random_agents;
mod replay;
mod server;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use case::Case;
use client::Desk;
use emergent_domain::workflow::WorkflowStatus;
use emergent_testkit::{both_engines, scripted::ScriptedModel};
use rand::{Rng, SeedableRng, rngs::StdRng};
use server::Server;
use tokio::time::sleep;

both_engines! {
    async fn workflows_keep_their_rules_though_a_server_dies_in_the_middle(db: TestDb) {
        let cases: u64 = var("EMERGENT_CASES").unwrap_or(25);
        let first: u64 = var("EMERGENT_SEED").unwrap_or_else(rand::random);
        println!("EMERGENT_SEED={first} EMERGENT_CASES={cases}");
        let mut dice = StdRng::seed_from_u64(first);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let model = ScriptedModel::always(move |question| {
            count.fetch_add(1, Ordering::Relaxed);
            random_agents::answer(question)
        });
        let desk = Desk::open(&db, &model).await;
        // Neither has room for all of them.
        let room = usize::try_from(cases / 2 + 1).unwrap();
        let mut servers = [Server::open(&db, &model, room).await, Server::open(&db, &model, room).await];
        let (mut dispatched, mut all) = (Vec::new(), 0);
        for seed in (0..cases).map(|case| first.wrapping_add(case)) {
            let case = Case::new(seed);
            all += case.tasks.len();
            dispatched.push((seed, desk.dispatch(case).await));
        }
        // In the middle: most tasks take a question or two, so this one comes before the last.
        let middle = dice.random_range(0..all);
        while asked.load(Ordering::Relaxed) < middle && desk.under_way().await > 0 {
            sleep(Duration::from_millis(5)).await;
        }
        let dies = dice.random_range(0..2);
        servers[dies].kill();
        let under_way = desk.under_way().await;
        servers[dies] = Server::open(&db, &model, room).await;

        let (mut tasks, mut attempts, mut lost, mut ends) = (0, 0, 0, [0; 3]);
        for (seed, id) in dispatched {
            let _repeat = Repeat(seed);
            let shown = desk.ended(id).await;
            desk.check(&shown).await;
            tasks += shown.tasks.len();
            attempts += shown.tasks.iter().map(|one| one.runs.len()).sum::<usize>();
            lost += shown.spent.lost;
            ends[match shown.workflow.status {
                WorkflowStatus::Completed => 0,
                WorkflowStatus::Failed => 1,
                _ => 2,
            }] += 1;
        }
        let [completed, failed, escalated] = ends;
        println!(
            "{cases} workflows ({under_way} under way when a server died), {tasks} tasks, {attempts} attempts, \
             {lost} calls lost; completed {completed}, failed {failed}, escalated {escalated}"
        );
    }
}

/// Says how a case that fails is seen again.
struct Repeat(u64);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("EMERGENT_SEED={} EMERGENT_CASES=1 repeats this case", self.0);
        }
    }
}

fn var(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
