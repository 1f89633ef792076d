//! The rules that a project sets for its tasks: a task that matches a pattern goes to an agent. They come before
//! everything that speaks for an agent.

use emergent_domain::{
    coordination::SelectionRule,
    task::{Task, VerdictKind},
};

use super::{AgentCard, AgentSelection, handles::matches_pattern};

/// The choice of the first rule that matches the task and names an agent of the list. `None` if there is none, or
/// if the task names its agent itself.
pub fn select_by_project_rules(
    task: &Task,
    agents: &[AgentCard],
    rules: &[SelectionRule],
) -> Option<AgentSelection> {
    if task.assigned_agent.is_some() {
        return None;
    }
    let exists = |rule: &&SelectionRule| agents.iter().any(|agent| agent.name == rule.agent);
    let rule = rules.iter().filter(exists).find(|rule| matches_rule(task, rule))?;
    Some(AgentSelection {
        agent: Some(rule.agent.clone()),
        score: 1.0,
        reason: format!("the rule `{}` of the project names it", rule.pattern),
        clear: true,
    })
}

fn matches_rule(task: &Task, rule: &SelectionRule) -> bool {
    let (field, pattern) = rule.parts();
    let pattern = pattern.to_lowercase();
    let contains = |text: &str| matches_pattern(&pattern, &text.to_lowercase());
    let equals = |text: &str| equals_pattern(&pattern, &text.to_lowercase());
    match field {
        None => contains(&format!("{}\n{}", task.title, task.description)),
        Some("title") => contains(&task.title),
        Some("description") => contains(&task.description),
        Some("kind") => equals(&task.kind),
        Some("tag") => task.tags.iter().any(|tag| equals(tag)),
        Some("key") => equals(&task.key),
        Some("priority") => equals(task.priority.as_str()),
        // `none` is the word for a task that ends in no verdict; `*` stands for any verdict.
        Some("verdict") => match task.verdict {
            VerdictKind::None => pattern == VerdictKind::None.as_str(),
            verdict => equals(verdict.as_str()),
        },
        Some(_) => false,
    }
}

/// Whether a pattern matches the whole text; `*` stands for anything. No pattern matches a field that is not set.
fn equals_pattern(pattern: &str, text: &str) -> bool {
    if text.is_empty() {
        return false;
    }
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use emergent_domain::{agent::AgentDefinition, task::NewTask};
    use emergent_testkit::fixtures::task;

    use super::*;

    fn choice(rules: &[(&str, &str)], new: NewTask) -> Option<String> {
        let agents = ["cook", "clerk"].map(|name| AgentCard::from_definition(&AgentDefinition::new(name)));
        let rule = |(pattern, agent): &(&str, &str)| SelectionRule {
            pattern: (*pattern).to_owned(),
            agent: (*agent).to_owned(),
        };
        let rules: Vec<SelectionRule> = rules.iter().map(rule).collect();
        select_by_project_rules(&task(new), &agents, &rules)?.agent
    }

    #[test]
    fn the_first_rule_of_a_project_that_matches_decides() {
        let titled = |title: &str| NewTask { title: title.into(), ..NewTask::default() };
        let rules = [("soup", "cook"), ("soup * day", "clerk"), ("kind:re*h", "clerk"), ("tag:food", "cook")];
        assert_eq!(choice(&rules, titled("The Soup of the day")).as_deref(), Some("cook"));
        assert_eq!(choice(&rules[1..], titled("The soup of the day")).as_deref(), Some("clerk"));
        assert_eq!(choice(&rules, titled("Something else")), None);
        let research = NewTask { kind: "Research".into(), ..titled("It") };
        assert_eq!(choice(&rules, research.clone()).as_deref(), Some("clerk"));
        assert_eq!(choice(&[("kind:res", "clerk")], research), None, "a field is compared as a whole");
        let tagged = NewTask { tags: vec!["drink".into(), "Food".into()], ..titled("It") };
        assert_eq!(choice(&rules, tagged).as_deref(), Some("cook"));
    }

    #[test]
    fn a_star_stands_for_any_verdict_and_not_for_none() {
        let ending_in = |verdict: VerdictKind| NewTask { title: "It".into(), verdict, ..NewTask::default() };
        let rules = [("verdict:*", "cook")];
        for verdict in [VerdictKind::Test, VerdictKind::Review] {
            assert_eq!(choice(&rules, ending_in(verdict)).as_deref(), Some("cook"), "{verdict}");
        }
        assert_eq!(choice(&rules, ending_in(VerdictKind::None)), None);
        let without = [("verdict:none", "clerk")];
        assert_eq!(choice(&without, ending_in(VerdictKind::None)).as_deref(), Some("clerk"));
        assert_eq!(choice(&without, ending_in(VerdictKind::Test)), None);
        assert_eq!(choice(&[("kind:*", "cook"), ("tag:*", "cook")], ending_in(VerdictKind::None)), None);
    }

    #[test]
    fn a_rule_gives_way_to_the_task_and_to_agents_that_are_gone() {
        let named =
            NewTask { title: "Soup".into(), assigned_agent: Some("clerk".into()), ..NewTask::default() };
        assert_eq!(choice(&[("soup", "cook")], named.clone()), None);
        let free = NewTask { assigned_agent: None, ..named };
        assert_eq!(choice(&[("soup", "nobody"), ("soup", "cook")], free).as_deref(), Some("cook"));
    }
}
