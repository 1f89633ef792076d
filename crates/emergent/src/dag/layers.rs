//! Which tasks stand beside one another: each comes one layer after the last it waits for.

use std::collections::HashMap;

use super::Task;

/// Places of tasks, layer by layer, in their own order within each.
pub fn layers(tasks: &[Task]) -> Vec<Vec<usize>> {
    let by_key: HashMap<&str, usize> =
        tasks.iter().enumerate().map(|(at, task)| (task.key.as_str(), at)).collect();
    let mut depth: Vec<Option<usize>> = vec![None; tasks.len()];
    for start in 0..tasks.len() {
        let mut stack = vec![start];
        while let Some(&at) = stack.last() {
            // What is of another workflow is not in the picture.
            let before = || tasks[at].blocked_by.iter().filter_map(|key| by_key.get(key.as_str()).copied());
            let open: Vec<usize> = before().filter(|one| depth[*one].is_none()).collect();
            // A way round is refused when it is written; one that were there ends here.
            if open.is_empty() || stack.len() > tasks.len() {
                depth[at] = Some(before().filter_map(|one| depth[one]).map(|one| one + 1).max().unwrap_or(0));
                stack.pop();
            } else {
                stack.extend(open);
            }
        }
    }
    let mut layers: Vec<Vec<usize>> = Vec::new();
    for (at, layer) in depth.into_iter().enumerate() {
        let layer = layer.unwrap_or(0);
        if layers.len() <= layer {
            layers.resize_with(layer + 1, Vec::new);
        }
        layers[layer].push(at);
    }
    layers
}
