//! The flags of `emergent project update`, and the request that they make.

use emergent_wire::project::{
    DiscussionDefaultsView, DiscussionPhaseView, ProjectView, SelectionRuleView, UpdateProject,
    UpdateRetention, WebhookView,
};

use crate::{
    client::Client,
    config::parse_duration,
    error::{Error, Result},
};

/// Seconds of a day.
const DAY: u64 = 24 * 60 * 60;
/// Takes a setting of discussions away again.
const DEFAULT: &str = "default";

#[derive(Debug, clap::Args)]
pub struct Update {
    /// Its name, its id, or the end of its id
    #[arg(value_name = "PROJECT")]
    pub target: String,
    /// Another name
    #[arg(long)]
    name: Option<String>,
    /// Whether types that no assigned template pack describes are refused
    #[arg(long, value_name = "BOOL")]
    strict: Option<bool>,
    /// How long to keep ended runs, with their messages, tool calls and events
    #[arg(long, value_name = "TIME")]
    keep_runs: Option<String>,
    /// How long to keep the changes of the graph in the change feed
    #[arg(long, value_name = "TIME")]
    keep_events: Option<String>,
    /// How long to keep settled firings of triggers
    #[arg(long, value_name = "TIME")]
    keep_firings: Option<String>,
    /// Whether new tasks outside a workflow are executed by themselves
    #[arg(long, value_name = "BOOL")]
    auto_dispatch: Option<bool>,
    /// Which agent gets which tasks, such as `kind:research=research-assistant`; repeated, and in the place of
    /// all rules. `none` removes them
    #[arg(long, value_name = "PATTERN=AGENT")]
    selection_rule: Vec<String>,
    /// Whether internal agents of products are chosen for tasks
    #[arg(long, value_name = "BOOL")]
    select_internal_agents: Option<bool>,
    /// How discussions are held: review_loop, consensus, debate, brainstorm, problem_solving, collaboration, or
    /// `default`
    #[arg(long, value_name = "KIND")]
    discussion_kind: Option<String>,
    /// The most rounds of a discussion, or `default`
    #[arg(long, value_name = "N")]
    discussion_rounds: Option<String>,
    /// The share of the weight that an option needs, such as 0.7, or `default`
    #[arg(long, value_name = "SHARE")]
    discussion_threshold: Option<String>,
    /// How many participants have to be left, or `default`
    #[arg(long, value_name = "N")]
    discussion_quorum: Option<String>,
    /// A phase of a collaboration, such as `review:argument=reviewer-agent,spec-writer`; repeated, and in the place
    /// of all phases. `none` removes them
    #[arg(long, value_name = "NAME[:OUTPUT][=AGENTS]")]
    discussion_phase: Vec<String>,
    /// Send signed notices of new and decided items of the inbox to this address; `none` ends that
    #[arg(long, value_name = "URL")]
    webhook: Option<String>,
    /// The secret of the project that signs the notices
    #[arg(long, value_name = "NAME", requires = "webhook")]
    webhook_secret: Option<String>,
}

impl Update {
    /// The request. Of discussions only what the flags name is changed, so the project is read first.
    pub async fn body(self, client: &Client, path: &str) -> Result<UpdateProject> {
        if !self.changes_anything() {
            let message =
                "nothing to change: give at least one setting (`emergent project update --help` lists them)";
            return Err(Error::Usage(message.to_owned()));
        }
        let retention = UpdateRetention {
            runs_days: parse_days("--keep-runs", self.keep_runs.as_deref())?,
            events_days: parse_days("--keep-events", self.keep_events.as_deref())?,
            firings_days: parse_days("--keep-firings", self.keep_firings.as_deref())?,
        };
        let selection_rules = parse_rules(&self.selection_rule)?;
        let discussions = match self.changes_discussions() {
            true => {
                let project: ProjectView = client.get(path).await?.data().await?;
                Some(self.change_discussions(project.discussions)?)
            }
            false => None,
        };
        let webhook = parse_webhook(self.webhook.as_deref(), self.webhook_secret)?;
        let update = UpdateProject {
            name: self.name,
            strict: self.strict,
            retention: Some(retention),
            auto_dispatch: self.auto_dispatch,
            selection_rules,
            select_internal_agents: self.select_internal_agents,
            discussions,
            webhook,
        };
        Ok(update)
    }

    fn changes_anything(&self) -> bool {
        let texts = [&self.name, &self.keep_runs, &self.keep_events, &self.keep_firings, &self.webhook];
        let flags = [self.strict, self.auto_dispatch, self.select_internal_agents];
        texts.iter().any(|text| text.is_some())
            || flags.iter().any(|flag| flag.is_some())
            || !self.selection_rule.is_empty()
            || self.changes_discussions()
    }

    fn changes_discussions(&self) -> bool {
        let flags = [
            &self.discussion_kind,
            &self.discussion_rounds,
            &self.discussion_threshold,
            &self.discussion_quorum,
        ];
        flags.iter().any(|flag| flag.is_some()) || !self.discussion_phase.is_empty()
    }

    fn change_discussions(&self, before: DiscussionDefaultsView) -> Result<DiscussionDefaultsView> {
        let mut after = before;
        if let Some(kind) = &self.discussion_kind {
            after.kind = Some(kind.clone()).filter(|kind| kind != DEFAULT);
        }
        set("--discussion-rounds", self.discussion_rounds.as_deref(), &mut after.rounds)?;
        set("--discussion-threshold", self.discussion_threshold.as_deref(), &mut after.threshold)?;
        set("--discussion-quorum", self.discussion_quorum.as_deref(), &mut after.quorum)?;
        match self.discussion_phase.as_slice() {
            [] => {}
            [only] if only == "none" => after.phases.clear(),
            phases => after.phases = phases.iter().map(|phase| parse_phase(phase)).collect(),
        }
        Ok(after)
    }
}

/// The webhook of the flags; the inner `None` removes it.
fn parse_webhook(url: Option<&str>, secret: Option<String>) -> Result<Option<Option<WebhookView>>> {
    match (url, secret) {
        (None, _) => Ok(None),
        (Some("none"), None) => Ok(Some(None)),
        (Some("none"), Some(_)) => Err(Error::Usage(
            "`--webhook none` removes the webhook, so it takes no `--webhook-secret`".to_owned(),
        )),
        (Some(url), Some(secret)) => Ok(Some(Some(WebhookView { url: url.to_owned(), secret }))),
        (Some(_), None) => {
            let message =
                "`--webhook` needs `--webhook-secret`: notices are signed with a secret of the project";
            Err(Error::Usage(message.to_owned()))
        }
    }
}

/// Sets a number that a flag names; `default` takes it away.
fn set<T: std::str::FromStr>(flag: &str, text: Option<&str>, value: &mut Option<T>) -> Result<()> {
    let Some(text) = text else { return Ok(()) };
    if text == DEFAULT {
        *value = None;
        return Ok(());
    }
    let invalid = || Error::Usage(format!("{flag}: `{text}` is neither a number nor `{DEFAULT}`"));
    *value = Some(text.parse().map_err(|_| invalid())?);
    Ok(())
}

/// Parses `NAME[:OUTPUT][=AGENT,AGENT]`; the server checks the parts.
fn parse_phase(text: &str) -> DiscussionPhaseView {
    let (head, agents) = text.split_once('=').unwrap_or((text, ""));
    let (name, output) = match head.split_once(':') {
        Some((name, output)) => (name, Some(output.trim().to_owned())),
        None => (head, None),
    };
    let agents = agents.split(',').map(str::trim).filter(|agent| !agent.is_empty());
    DiscussionPhaseView {
        name: name.trim().to_owned(),
        agents: agents.map(str::to_owned).collect(),
        max_rounds: None,
        output,
    }
}

/// Parses a time in whole days; `forever` is the inner `None`.
fn parse_days(flag: &str, text: Option<&str>) -> Result<Option<Option<i64>>> {
    match text {
        None => Ok(None),
        Some("forever") => Ok(Some(None)),
        Some(text) => {
            let seconds = parse_duration(text).map(|time| time.as_secs()).filter(|time| time % DAY == 0);
            let days = seconds.and_then(|seconds| i64::try_from(seconds / DAY).ok());
            let invalid = || {
                Error::Usage(format!(
                    "{flag}: `{text}` is neither a number of days such as `90d` nor `forever`"
                ))
            };
            Ok(Some(Some(days.ok_or_else(invalid)?)))
        }
    }
}

/// Parses `PATTERN=AGENT`; `None` if no rule is given.
fn parse_rules(rules: &[String]) -> Result<Option<Vec<SelectionRuleView>>> {
    match rules {
        [] => return Ok(None),
        [only] if only == "none" => return Ok(Some(Vec::new())),
        _ => {}
    }
    let parse = |text: &String| match text.rsplit_once('=') {
        Some((pattern, agent)) => {
            Ok(SelectionRuleView { pattern: pattern.trim().to_owned(), agent: agent.trim().to_owned() })
        }
        None => Err(Error::Usage(format!("--selection-rule: `{text}` is not of the form PATTERN=AGENT"))),
    };
    rules.iter().map(parse).collect::<Result<_>>().map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_days_or_forever() {
        let parse = |text| parse_days("--keep-runs", Some(text));
        assert_eq!(parse("90d").unwrap(), Some(Some(90)));
        assert_eq!(parse("48h").unwrap(), Some(Some(2)));
        assert_eq!(parse("forever").unwrap(), Some(None));
        assert_eq!(parse_days("--keep-runs", None).unwrap(), None);
        for text in ["90", "12h", "soon"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_phase_has_a_name_and_may_have_a_type_and_agents() {
        let parts = |text: &str| {
            let DiscussionPhaseView { name, output, agents, .. } = parse_phase(text);
            format!("{name} / {} / {}", output.unwrap_or_default(), agents.join(" "))
        };
        assert_eq!(parts("review"), "review /  / ");
        assert_eq!(parts("decide:vote"), "decide / vote / ");
        assert_eq!(parts("ask:question=a, b"), "ask / question / a b");
        assert_eq!(parts("ask=a"), "ask /  / a");
    }

    #[test]
    fn a_setting_is_a_number_or_goes_back_to_its_default() {
        let mut rounds = Some(3_i64);
        set("--discussion-rounds", None, &mut rounds).unwrap();
        assert_eq!(rounds, Some(3));
        set("--discussion-rounds", Some("5"), &mut rounds).unwrap();
        assert_eq!(rounds, Some(5));
        let error = set("--discussion-rounds", Some("many"), &mut rounds).unwrap_err().to_string();
        assert!(error.contains("--discussion-rounds: `many`"), "{error}");
        set("--discussion-rounds", Some("default"), &mut rounds).unwrap();
        assert_eq!(rounds, None);
    }
}
