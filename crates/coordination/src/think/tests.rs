use serde_json::json;

use super::*;

fn question(prompt: &str) -> Question {
    Question { system: String::new(), prompt: prompt.to_owned(), schema: json!({}) }
}

fn redo(why: &str) -> Option<Thought> {
    Some(Thought::Judged(Some(Judged::Redo { why: why.to_owned() })))
}

#[tokio::test]
async fn what_was_said_of_one_attempt_is_not_said_of_the_next() {
    let (task, first, second) = (ObjectId::new(), RunId::new(), RunId::new());
    let mut thoughts = Thoughts::default();
    thoughts.ask(About::Attempt(task, first), question("good?"), async { redo("too short") });
    assert!(thoughts.hear().await);
    assert_eq!(thoughts.on(About::Attempt(task, first), &question("good?")), Asked::Said(redo("too short")));
    assert_eq!(thoughts.on(About::Attempt(task, second), &question("good?")), Asked::No);
}

#[tokio::test]
async fn an_answer_is_kept_until_what_follows_from_it_is_written() {
    let task = ObjectId::new();
    let (agent, telling) = (About::Agent(task), About::Telling(task));
    let mut thoughts = Thoughts::default();
    thoughts.ask(agent, question("who?"), async { Some(Thought::Agent("builder".to_owned())) });
    assert!(thoughts.hold_up(task) && !thoughts.is_idle());
    assert_eq!(thoughts.on(agent, &question("who?")), Asked::Thinking);
    assert!(thoughts.hear().await && !thoughts.hold_up(task) && thoughts.is_idle());
    thoughts.written(&[telling]);
    for _ in 0..2 {
        let said = Asked::Said(Some(Thought::Agent("builder".to_owned())));
        assert_eq!(thoughts.on(agent, &question("who?")), said);
    }
    assert_eq!(thoughts.on(agent, &question("who, now that the task is another?")), Asked::No);
    thoughts.written(&[agent]);
    assert_eq!(thoughts.on(agent, &question("who?")), Asked::No);
    assert!(!thoughts.hear().await, "nobody thinks");
}

#[tokio::test]
async fn a_question_that_crashes_is_without_an_answer_and_the_others_go_on() {
    let (one, other) = (About::Agent(ObjectId::new()), About::Agent(ObjectId::new()));
    let (say, said) = tokio::sync::oneshot::channel();
    let mut thoughts = Thoughts::default();
    thoughts.ask(one, question("who?"), async { panic!("this question crashes") });
    thoughts.ask(other, question("who?"), async { said.await.ok().map(Thought::Agent) });
    assert!(thoughts.hear().await);
    assert_eq!(
        thoughts.on(one, &question("who?")),
        Asked::Said(None),
        "rules decide, and it is not asked again"
    );
    assert_eq!(thoughts.on(other, &question("who?")), Asked::Thinking);
    say.send("builder".to_owned()).unwrap();
    assert!(thoughts.hear().await);
    assert_eq!(
        thoughts.on(other, &question("who?")),
        Asked::Said(Some(Thought::Agent("builder".to_owned())))
    );
}
