//! Prints what a traversal reached: each object below the one it was reached from, and every edge once.

use std::collections::HashSet;

use emergent_domain::text::counted;
use emergent_wire::traverse::{NodeView, TraversalView};
use uuid::Uuid;

use super::graph::{object_name, title};
use crate::{
    error::Result,
    output::{self, bold, dim},
};

/// How many edges are listed that led to no object of the tree.
const MAX_OTHER_EDGES: usize = 100;

/// Prints the objects indented by depth, each after the edge that leads to it from the depth above, and then the edges
/// between objects that were reached by others.
pub fn print_traversal(traversal: &TraversalView) -> Result<()> {
    lines(traversal).iter().try_for_each(|line| output::print_row(line))
}

fn lines(traversal: &TraversalView) -> Vec<String> {
    let TraversalView { nodes, edges, truncated } = traversal;
    let node = |id: Uuid| nodes.iter().find(|node| node.id == id);
    let mut shown = HashSet::new();
    let mut lines = Vec::new();
    for reached in nodes {
        let via = edges.iter().find_map(|edge| {
            let (other, arrow) = match reached.id {
                id if id == edge.to_id => (node(edge.from_id)?, format!("─{}→ ", edge.type_)),
                id if id == edge.from_id => (node(edge.to_id)?, format!("←{}─ ", edge.type_)),
                _ => return None,
            };
            (other.depth + 1 == reached.depth).then_some((edge.id, arrow, other))
        });
        let (arrow, from) = match via {
            // The start is named in the first line.
            Some((id, arrow, other)) => {
                shown.insert(id);
                (arrow, if other.depth == 0 { String::new() } else { format!("  (of {})", name(other)) })
            }
            None => Default::default(),
        };
        let indent = "  ".repeat(reached.depth);
        let title = title(&reached.type_, reached.key.as_deref(), reached.id, &reached.properties);
        lines.push(format!("{indent}{}{}{}", dim(&arrow), bold(&title), dim(&from)));
    }
    let label = |id: Uuid| node(id).map_or_else(|| id.to_string(), reference);
    let others: Vec<_> = edges.iter().filter(|edge| !shown.contains(&edge.id)).collect();
    for edge in others.iter().take(MAX_OTHER_EDGES) {
        lines.push(dim(&format!("{} ─{}→ {}", label(edge.from_id), edge.type_, label(edge.to_id))));
    }
    let not_listed = match others.len().saturating_sub(MAX_OTHER_EDGES) {
        0 => String::new(),
        count => format!(" ({count} of them not shown; `--json` has all)"),
    };
    let notice = if *truncated { ", cut by a limit" } else { "" };
    let (objects, edges) = (counted(nodes.len(), "object"), counted(edges.len(), "edge"));
    lines.push(dim(&format!("{objects}, {edges}{not_listed}{notice}")));
    lines
}

/// The name of an object, or its key.
fn name(node: &NodeView) -> String {
    object_name(&node.properties).unwrap_or_else(|| reference(node))
}

/// `Type/key`, with the id if there is no key.
fn reference(node: &NodeView) -> String {
    format!("{}/{}", node.type_, node.key.clone().unwrap_or_else(|| node.id.to_string()))
}
