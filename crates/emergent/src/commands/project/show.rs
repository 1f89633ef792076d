//! Prints the settings of a project.

use emergent_domain::text::counted;
use emergent_wire::project::{DiscussionDefaultsView, ProjectView};

use crate::{
    error::Result,
    hints,
    output::{self, print_fact},
};

pub(super) fn print(project: &ProjectView) -> Result<()> {
    output::print_title(&project.name, &project.id.to_string())?;
    let yes_no = |flag: bool| if flag { "yes" } else { "no" };
    print_fact("strict", yes_no(project.strict))?;
    print_fact("keeps", &retention(project))?;
    let deleted = &project.deleted;
    let counts =
        [counted(deleted.runs, "run"), counted(deleted.events, "event"), counted(deleted.firings, "firing")]
            .join(", ");
    print_fact("deleted", &format!("{counts} so far, because they were older"))?;
    let new_tasks = match project.auto_dispatch {
        true => "are executed by themselves (autoDispatch)".to_owned(),
        false => format!("wait for `{}`", hints::command("dispatch --from-graph")),
    };
    print_fact("new tasks", &new_tasks)?;
    let internal =
        if project.select_internal_agents { "are chosen for tasks" } else { "are not chosen for tasks" };
    print_fact("internal", &format!("agents of products {internal}"))?;
    match project.selection_rules.as_slice() {
        [] => print_fact("rules", "none: agents are chosen by what they say they do")?,
        rules => {
            for (index, rule) in rules.iter().enumerate() {
                let label = if index == 0 { "rules" } else { "" };
                print_fact(label, &format!("{} → {}", rule.pattern, rule.agent))?;
            }
        }
    }
    print_fact("discussions", &discussions(&project.discussions))?;
    if let Some(webhook) = &project.webhook {
        print_fact("webhook", &format!("{} (signed with the secret {})", webhook.url, webhook.secret))?;
    }
    for phase in &project.discussions.phases {
        let agents = if phase.agents.is_empty() { "everybody".to_owned() } else { phase.agents.join(", ") };
        let output = phase.output.as_deref().unwrap_or("argument");
        let rounds = match phase.max_rounds {
            Some(rounds) if rounds > 1 => format!(", at most {rounds} rounds"),
            _ => String::new(),
        };
        print_fact("", &format!("phase {}: {output} by {agents}{rounds}", phase.name))?;
    }
    print_fact("created", &project.created_at.to_string())
}

fn retention(project: &ProjectView) -> String {
    let days = |days: Option<i64>| days.map_or("forever".to_owned(), |days| format!("{days}d"));
    let retention = &project.retention;
    format!(
        "runs {}, events {}, firings {}",
        days(retention.runs_days),
        days(retention.events_days),
        days(retention.firings_days)
    )
}

fn discussions(defaults: &DiscussionDefaultsView) -> String {
    let kind = defaults.kind.as_deref().or((!defaults.phases.is_empty()).then_some("collaboration"));
    let parts = [
        kind.map(|kind| format!("kind {kind}")),
        defaults.rounds.map(|rounds| format!("at most {rounds} rounds")),
        defaults.threshold.map(|threshold| format!("threshold {threshold}")),
        defaults.quorum.map(|quorum| format!("quorum {quorum}")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    match parts.is_empty() {
        true => "each kind has its own rules; a review is a review_loop".to_owned(),
        false => parts.join(", "),
    }
}
