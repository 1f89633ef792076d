use serde_json::json;

use super::*;

fn question(prompt: &str) -> Question {
    Question { system: String::new(), prompt: prompt.to_owned(), schema: json!({}) }
}

fn redo(why: &str) -> Option<JudgeAnswer> {
    Some(JudgeAnswer::Judgement(Some(Judgement::Redo { why: why.to_owned() })))
}

#[tokio::test]
async fn what_was_said_of_one_attempt_is_not_said_of_the_next() {
    let (task, first, second) = (ObjectId::new(), RunId::new(), RunId::new());
    let mut answers = JudgeAnswers::default();
    answers.ask(QuestionKey::Attempt(task, first), question("good?"), async { redo("too short") });
    assert!(answers.next_answer().await);
    assert_eq!(
        answers.get(QuestionKey::Attempt(task, first), &question("good?")),
        AnswerState::Answered(redo("too short"))
    );
    assert_eq!(answers.get(QuestionKey::Attempt(task, second), &question("good?")), AnswerState::NotAsked);
}

#[tokio::test]
async fn an_answer_is_kept_until_what_follows_from_it_is_written() {
    let task = ObjectId::new();
    let (agent, results) = (QuestionKey::Agent(task), QuestionKey::PriorResults(task));
    let mut answers = JudgeAnswers::default();
    answers.ask(agent, question("who?"), async { Some(JudgeAnswer::Agent("builder".to_owned())) });
    assert!(answers.blocks_attempt(task) && !answers.is_idle());
    assert_eq!(answers.get(agent, &question("who?")), AnswerState::Pending);
    assert!(answers.next_answer().await && !answers.blocks_attempt(task) && answers.is_idle());
    answers.discard_used(&[results]);
    for _ in 0..2 {
        let said = AnswerState::Answered(Some(JudgeAnswer::Agent("builder".to_owned())));
        assert_eq!(answers.get(agent, &question("who?")), said);
    }
    assert_eq!(answers.get(agent, &question("who, now that the task is another?")), AnswerState::NotAsked);
    answers.discard_used(&[agent]);
    assert_eq!(answers.get(agent, &question("who?")), AnswerState::NotAsked);
    assert!(!answers.next_answer().await, "nobody thinks");
}

#[tokio::test]
async fn a_question_that_crashes_is_without_an_answer_and_the_others_go_on() {
    let (one, other) = (QuestionKey::Agent(ObjectId::new()), QuestionKey::Agent(ObjectId::new()));
    let (say, said) = tokio::sync::oneshot::channel();
    let mut answers = JudgeAnswers::default();
    answers.ask(one, question("who?"), async { panic!("this question crashes") });
    answers.ask(other, question("who?"), async { said.await.ok().map(JudgeAnswer::Agent) });
    assert!(answers.next_answer().await);
    assert_eq!(
        answers.get(one, &question("who?")),
        AnswerState::Answered(None),
        "rules decide, and it is not asked again"
    );
    assert_eq!(answers.get(other, &question("who?")), AnswerState::Pending);
    say.send("builder".to_owned()).unwrap();
    assert!(answers.next_answer().await);
    assert_eq!(
        answers.get(other, &question("who?")),
        AnswerState::Answered(Some(JudgeAnswer::Agent("builder".to_owned())))
    );
}
