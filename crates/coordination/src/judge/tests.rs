//! Tests of the questions to the judge and its stored answers.

use serde_json::json;

use super::*;

fn question(prompt: &str) -> Question {
    Question { system: String::new(), prompt: prompt.to_owned(), schema: json!({}) }
}

fn redo(why: &str) -> AnswerResult {
    Ok(JudgeAnswer::Judgement(Some(Judgement::Redo { why: why.to_owned() })))
}

#[tokio::test]
async fn the_answer_about_an_attempt_does_not_count_for_the_next_attempt() {
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
async fn an_answer_is_stored_until_it_is_discarded_and_counts_only_for_its_question() {
    let task = ObjectId::new();
    let (agent, results) = (QuestionKey::Agent(task), QuestionKey::PriorResults(task));
    let mut answers = JudgeAnswers::default();
    answers.ask(agent, question("who?"), async { Ok(JudgeAnswer::Agent("builder".to_owned())) });
    assert!(answers.blocks_attempt(task) && !answers.is_idle());
    assert_eq!(answers.get(agent, &question("who?")), AnswerState::Pending);
    assert!(answers.next_answer().await && !answers.blocks_attempt(task) && answers.is_idle());
    answers.discard_used(&[results]);
    for _ in 0..2 {
        let expected = AnswerState::Answered(Ok(JudgeAnswer::Agent("builder".to_owned())));
        assert_eq!(answers.get(agent, &question("who?")), expected);
    }
    assert_eq!(answers.get(agent, &question("who, now that the task is another?")), AnswerState::NotAsked);
    answers.discard_used(&[agent]);
    assert_eq!(answers.get(agent, &question("who?")), AnswerState::NotAsked);
    assert!(!answers.next_answer().await, "no question is pending");
}

#[tokio::test]
async fn a_question_that_panics_has_no_answer_and_other_questions_continue() {
    let (panicking, other) = (QuestionKey::Agent(ObjectId::new()), QuestionKey::Agent(ObjectId::new()));
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let mut answers = JudgeAnswers::default();
    answers.ask(panicking, question("who?"), async { panic!("this question crashes") });
    answers.ask(other, question("who?"), async { Ok(JudgeAnswer::Agent(receiver.await.unwrap())) });
    assert!(answers.next_answer().await);
    assert!(
        matches!(answers.get(panicking, &question("who?")), AnswerState::Answered(Err(_))),
        "rules decide, and it is not asked again"
    );
    assert_eq!(answers.get(other, &question("who?")), AnswerState::Pending);
    sender.send("builder".to_owned()).unwrap();
    assert!(answers.next_answer().await);
    assert_eq!(
        answers.get(other, &question("who?")),
        AnswerState::Answered(Ok(JudgeAnswer::Agent("builder".to_owned())))
    );
}
