//! Random graphs of tasks, random agents, random crashes, two servers, simulated time: whatever
//! happens, the rules of a workflow hold. The database is simulated by its promises: a decision is
//! written whole, and only by the server that holds the lease and has seen the newest revision.
//! `EMERGENT_SEED` repeats one case, `EMERGENT_CASES` sets how many there are.

mod simulated;

use simulated::World;

#[test]
fn every_workflow_reaches_an_end_and_keeps_its_rules_on_the_way() {
    let cases: u64 = var("EMERGENT_CASES").unwrap_or(2_000);
    let first: u64 = var("EMERGENT_SEED").unwrap_or_else(rand::random);
    let (mut tasks, mut attempts, mut crashes, mut ends) = (0, 0, 0, [0usize; 4]);
    for case in 0..cases {
        let seed = first.wrapping_add(case);
        let done = std::panic::catch_unwind(|| World::new(seed).play());
        let story = done.unwrap_or_else(|panic| {
            eprintln!("EMERGENT_SEED={seed} EMERGENT_CASES=1 repeats this case");
            std::panic::resume_unwind(panic)
        });
        tasks += story.tasks;
        attempts += story.attempts;
        crashes += story.crashes;
        ends[story.end] += 1;
    }
    println!(
        "seed {first}: {cases} workflows, {tasks} tasks, {attempts} attempts, {crashes} crashes; completed {}, failed {}, cancelled {}, after help {}",
        ends[0], ends[1], ends[2], ends[3]
    );
    if cases >= 1_000 {
        assert!(ends.iter().all(|count| *count > 0), "every kind of end should be seen: {ends:?}");
    }
}

fn var(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}
