//! Loops in which the run itself causes the change that it reads, and honest work beside its own repeated writes.

use emergent_domain::loops::CallEffect::{External, Reads, Writes};
use serde_json::{Value, json};

use super::{
    Trace, TracedCall, search,
    small_graph::{Look, World, time},
};

const LOOKS: [Look; 5] = [Look::Get, Look::Query, Look::Search, Look::History, Look::Neighbors];

/// Objects whose state is changed back and forth.
pub(super) fn loops_of_toggles(traces: &mut Vec<Trace>) {
    for look in LOOKS {
        for count in [1, 2, 3, 6] {
            World::with(count).add_loop(
                traces,
                format!("{count} toggled, each with {look:?}"),
                |world, _| {
                    for status in ["doing", "todo"] {
                        for n in 0..count {
                            world.update(n, status);
                            world.look(look, n);
                        }
                    }
                },
            );
        }
        World::with(1).add_loop(traces, format!("a property toggled, with {look:?}"), |world, _| {
            for value in [1, 2] {
                world.update_property(0, value);
                world.look(look, 0);
            }
        });
        World::with(1).add_loop(traces, format!("three states in a circle, with {look:?}"), |world, _| {
            for status in ["todo", "doing", "done"] {
                world.update(0, status);
                world.look(look, 0);
            }
        });
        World::with(1).add_loop(traces, format!("the same state again, with {look:?}"), |world, _| {
            world.update(0, "doing");
            world.look(look, 0);
        });
    }
    World::with(1).add_loop(
        traces,
        "a toggle with a look at all versions and the list".into(),
        |world, _| {
            for status in ["doing", "todo"] {
                world.update(0, status);
                [Look::Get, Look::Query, Look::Search].into_iter().for_each(|look| world.look(look, 0));
            }
        },
    );
    World::with(1).add_loop(traces, "a toggle that names the version it expects".into(), |world, _| {
        for status in ["doing", "todo"] {
            world.get(0);
            world.update_expected(0, status);
        }
    });
    World::with(3).add_loop(traces, "a toggle of one and a look at another".into(), |world, _| {
        for status in ["doing", "todo"] {
            world.update(0, status);
            world.get(1);
            world.query("Note");
        }
    });
    World::with(2).add_loop(traces, "deleted and restored, with a look".into(), |world, _| {
        world.delete(0, json!({ "id": "Note/n0" }));
        world.get(0);
        if world.begin("entities_restore", json!({ "id": "Note/n0" }), Writes) {
            world.change(0, "new", None);
            world.items[0].is_deleted = false;
            world.finish(json!({ "object": world.row(0) }), false);
        }
        world.get(0);
    });
    World::with(2).add_loop(traces, "a relationship made and deleted, with a look".into(), |world, _| {
        let ends = json!({ "type": "about", "fromId": "Note/n1", "toId": "Note/n0" });
        world.connect_as_call(1, ends.clone());
        world.look(Look::List, 0);
        if world.begin("relationships_delete", ends, Writes) {
            let deleted = world.edge(world.edges.len() - 1);
            world.edges.pop();
            world.finish(json!({ "deleted": deleted }), false);
        }
        world.look(Look::List, 0);
    });
}

/// The same object created again and again.
pub(super) fn loops_of_duplicates(traces: &mut Vec<Trace>) {
    let same = || json!({ "type": "Dup", "properties": { "title": "same" } });
    for look in [Look::Query, Look::Search, Look::Counts, Look::List, Look::Neighbors] {
        for related in [false, true] {
            let name = format!("the same object created, related: {related}, with {look:?}");
            World::with(2).add_loop(traces, name, |world, _| {
                let new = world.create(same(), related);
                world.look(
                    if look == Look::Get { Look::Query } else { look },
                    if look == Look::Neighbors { 0 } else { new },
                );
            });
        }
    }
    for (count, others) in [(2, 0), (3, 5), (1, 30), (2, 30)] {
        let name = format!("{count} objects created again among {others} others of their type");
        let mut world = World::with(1);
        for n in 0..others {
            world.insert("Dup", None, json!({ "title": format!("other {n}") }));
        }
        world.add_loop(traces, name, |world, _| {
            for n in 0..count {
                world.create(json!({ "type": "Dup", "properties": { "title": n } }), false);
                world.query("Dup");
            }
        });
    }
    World::with(1).add_loop(traces, "created again, read by its new id and listed".into(), |world, _| {
        let new = world.create(same(), false);
        world.get(new);
        world.query("Dup");
    });
    World::with(1).add_loop(traces, "created again, changed and listed".into(), |world, _| {
        let new = world.create(same(), false);
        world.update_by_id(new, "done");
        world.query("Dup");
    });
    World::with(1).add_loop(traces, "created again and deleted".into(), |world, _| {
        let new = world.create(same(), false);
        world.delete(new, json!({ "id": world.items[new].id }));
        world.look(Look::Counts, 0);
    });
    World::with(2).add_loop(traces, "created again and connected".into(), |world, _| {
        let new = world.create(same(), false);
        world.connect_as_call(
            new,
            json!({ "type": "about", "fromId": world.items[new].id, "toId": "Note/n0" }),
        );
        world.look(Look::Neighbors, 0);
    });
    World::with(1).add_loop(traces, "the same task again, with a look at the tasks".into(), |world, _| {
        if world.begin("tasks_create", json!({ "title": "same" }), Writes) {
            let new = world.insert("Task", None, json!("same"));
            world.finish(json!({ "tasks": [{ "id": world.items[new].id, "title": "same" }] }), false);
        }
        world.look(Look::Tasks, 0);
    });
}

/// Changes outside of this server, whose results have the time of the call.
pub(super) fn loops_outside(traces: &mut Vec<Trace>) {
    for effect in [Reads, External] {
        for count in [1, 2, 3] {
            let name = format!("{count} switches outside, read with effect {effect:?}");
            World::default().add_loop(traces, name, |world, _| {
                for state in ["on", "off"] {
                    for n in 0..count {
                        let at = time(world.clock);
                        let set = json!({ "switch": n, "state": state });
                        world.make(
                            "switch_set",
                            set,
                            External,
                            json!({ "ok": true, "at": 1, "updated_at": at }),
                        );
                        let shown =
                            json!({ "switch": n, "state": state, "timestamp": 1_790_000_000 + world.clock });
                        world.make("switch_get", json!({ "switch": n }), effect, shown);
                    }
                }
            });
        }
    }
}

pub(super) fn honest_work_beside_own_writes(traces: &mut Vec<Trace>) {
    for rounds in [5, 20, 60] {
        // Somebody else changes what the run waits for, while it reports that it is alive.
        World::with(3).add_honest(
            traces,
            format!("{rounds} rounds alive, others work"),
            rounds,
            |world, round| {
                world.update(0, "alive");
                world.change(1, &format!("step {round}"), None);
                world.get(1);
            },
        );
        World::with(3).add_honest(
            traces,
            format!("{rounds} rounds alive, others add"),
            rounds,
            |world, round| {
                world.update(0, "alive");
                world.insert("Note", None, json!({ "title": format!("found {round}") }));
                world.query("Note");
            },
        );
        World::with(3).add_honest(
            traces,
            format!("{rounds} rounds alive, others add the same"),
            rounds,
            |world, _| {
                world.update(0, "alive");
                world.insert("Result", None, json!({ "title": "a result" }));
                world.look(Look::Query, world.items.len() - 1);
            },
        );
        World::with(2).add_honest(
            traces,
            format!("{rounds} answers of another agent"),
            rounds,
            |world, round| {
                world.update(0, "ask");
                world.change(0, "answered", Some(json!({ "answer": round })));
                world.get(0);
            },
        );
        World::with(2).add_honest(
            traces,
            format!("{rounds} touches by another agent"),
            rounds,
            |world, _| {
                world.update(0, "ask");
                world.change(0, "ask", None);
                world.get(0);
            },
        );
        World::with(2).add_honest(traces, format!("{rounds} values of a counter"), rounds, |world, round| {
            world.update_property(0, round as i64);
            world.get(0);
        });
        World::with(2).add_honest(
            traces,
            format!("{rounds} values, seen in the list"),
            rounds,
            |world, round| {
                world.update_property(0, round as i64);
                world.query("Note");
            },
        );
        let world = World::with(rounds);
        world.add_honest(traces, format!("{rounds} objects through three states"), rounds, |world, n| {
            for status in ["todo", "doing", "done"] {
                world.update(n, status);
                world.get(n);
            }
        });
        World::with(rounds).add_honest(
            traces,
            format!("{rounds} objects, read and done"),
            rounds,
            |world, n| {
                world.get(n);
                world.update(n, "done");
            },
        );
        World::with(1).add_honest(
            traces,
            format!("{rounds} objects created and listed"),
            rounds,
            |world, n| {
                world.create(json!({ "type": "Item", "properties": { "title": n } }), n % 2 == 0);
                world.query("Item");
            },
        );
        World::with(1).add_honest(
            traces,
            format!("{rounds} objects created, read and changed"),
            rounds,
            |world, n| {
                let new = world.create(json!({ "type": "Item", "properties": { "title": n } }), false);
                world.get(new);
                let input = json!({ "id": world.items[new].id, "status": "done" });
                world.change(new, "done", None);
                world.make("entities_update", input, Writes, json!({ "object": world.row(new) }));
            },
        );
        // Pages of a list while the run marks where it is.
        World::with(2).add_honest(
            traces,
            format!("{rounds} pages, each with a mark"),
            rounds,
            |world, page| {
                let result =
                    json!({ "objects": [{ "id": page, "version": 1 }], "nextCursor": page.to_string() });
                world.make("entities_query", json!({ "type": "Row", "cursor": page }), Reads, result);
                world.update(0, "reading");
            },
        );
        World::with(1).add_honest(
            traces,
            format!("{rounds} searches, each with a mark"),
            rounds,
            |world, n| {
                let TracedCall { tool, input, result, .. } = search(&format!("topic {n}"), n + 1);
                world.make(&tool, input, Reads, result);
                world.update(0, "searching");
            },
        );
        // A queue outside gives another item each time, and each is worked on.
        World::default().add_honest(traces, format!("{rounds} items of a queue"), rounds, |world, n| {
            let at = time(world.clock);
            world.make("queue_pop", json!({}), External, json!({ "id": n, "taken_at": at }));
            world.make("item_process", json!({ "id": n }), External, json!({ "ok": true }));
        });
        World::default().add_honest(
            traces,
            format!("{rounds} polls of two builds with times"),
            rounds,
            |world, n| {
                for build in [1, 2] {
                    let shown =
                        json!({ "state": format!("step {}", n / 2), "updated_at": time(world.clock) });
                    world.make("build_status", json!({ "build": build }), External, shown);
                }
            },
        );
        // A worker that is started again does the next part each time.
        World::default().add_honest(traces, format!("{rounds} times the same worker"), rounds, |world, n| {
            let result = json!({ "results": [{ "runId": format!("r{n}"), "summary": format!("part {n}") }] });
            world.make("spawn_agents", json!({ "tasks": [{ "agent_name": "worker" }] }), Writes, result);
            let left: Vec<Value> = (n..rounds).map(|id| json!({ "id": id, "version": 1 })).collect();
            world.make("entities_query", json!({ "type": "Part" }), Reads, json!({ "objects": left }));
        });
    }
    World::with(4).add_honest(traces, "a correction that is taken back once".into(), 2, |world, round| {
        for status in ["doing", "todo"] {
            world.update(0, status);
            world.get(0);
        }
        world.update(round + 1, "done");
        world.query("Note");
    });
    World::with(1).add_honest(traces, "a draft that is improved and shown".into(), 12, |world, round| {
        world.update(0, "draft");
        world.update_property(0, 100 + round as i64);
        world.get(0);
        world.update(0, "review");
    });
}
