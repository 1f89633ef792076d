//! Arranges tasks in layers: a task is one layer below its deepest blocker.

use std::collections::HashMap;

use super::Task;

/// The indices of the tasks by layer; within a layer they keep their order.
pub fn layers(tasks: &[Task]) -> Vec<Vec<usize>> {
    let by_key: HashMap<&str, usize> =
        tasks.iter().enumerate().map(|(index, task)| (task.key.as_str(), index)).collect();
    let mut depths: Vec<Option<usize>> = vec![None; tasks.len()];
    for start in 0..tasks.len() {
        let mut stack = vec![start];
        while let Some(&task) = stack.last() {
            // Blockers in other workflows are not drawn.
            let blockers =
                || tasks[task].blocked_by.iter().filter_map(|key| by_key.get(key.as_str()).copied());
            let unknown: Vec<usize> = blockers().filter(|blocker| depths[*blocker].is_none()).collect();
            // The server refuses cycles; the check of the stack's size ends this loop if there is one.
            if unknown.is_empty() || stack.len() > tasks.len() {
                let deepest = blockers().filter_map(|blocker| depths[blocker]).max();
                depths[task] = Some(deepest.map_or(0, |depth| depth + 1));
                stack.pop();
            } else {
                stack.extend(unknown);
            }
        }
    }
    let mut layers: Vec<Vec<usize>> = Vec::new();
    for (task, depth) in depths.into_iter().enumerate() {
        let depth = depth.unwrap_or(0);
        if layers.len() <= depth {
            layers.resize_with(depth + 1, Vec::new);
        }
        layers[depth].push(task);
    }
    layers
}
