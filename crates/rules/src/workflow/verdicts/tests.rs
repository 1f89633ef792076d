use emergent_domain::{
    task::VerdictKind::{self, Review, Test},
    verdict::VerdictWord::{Approve, Comment, Fail, NeedsChanges, Pass, RequestChanges},
};
use serde_json::json;

use super::*;

#[test]
fn a_verdict_is_a_json_object_or_a_line_of_its_own() {
    let table: &[(VerdictKind, &str, Option<VerdictWord>)] = &[
        (Test, "VERDICT: PASS", Some(Pass)),
        (Test, "Everything fits.\n\n**Verdict: NEEDS_CHANGES**", Some(NeedsChanges)),
        (Test, "## VERDICT: FAIL", Some(Fail)),
        (Test, "verdict: needs changes.", Some(NeedsChanges)),
        (Test, "VERDICT: FAIL\n\nAfter another look:\n\nVERDICT: PASS", Some(Pass)),
        (Test, "VERDICT: APPROVE", Some(Pass)),
        (
            Test,
            "```json\n{\"verdict\": \"NEEDS_CHANGES\", \"issues\": [\"no index\"]}\n```",
            Some(NeedsChanges),
        ),
        (Test, "{\"verdict\": \"PASS\"}\nVERDICT: FAIL", Some(Pass)),
        (Review, "VERDICT: APPROVE", Some(Approve)),
        (Review, "Verdict: Request changes", Some(RequestChanges)),
        (Review, "- VERDICT: COMMENT", Some(Comment)),
        (Review, "VERDICT: FAIL", Some(RequestChanges)),
        (VerdictKind::None, "VERDICT: PASS", None),
    ];
    check(table);
}

#[test]
fn usual_forms_of_a_verdict_are_read() {
    let table: &[(VerdictKind, &str, Option<VerdictWord>)] = &[
        (Test, "All steps work.\n\nOverall verdict: PASS", Some(Pass)),
        (Test, "- Overall verdict: **NEEDS_CHANGES**", Some(NeedsChanges)),
        (Test, "## Verdict\n\nPASS", Some(Pass)),
        (Test, "**Verdict**\n\n**FAIL**\n\nThe index is missing.", Some(Fail)),
        (Test, "Verdict - PASS.", Some(Pass)),
        (Test, "Verdict: ✅ PASS", Some(Pass)),
        (Review, "Overall assessment: REQUEST_CHANGES", Some(RequestChanges)),
    ];
    check(table);
}

#[test]
fn prose_is_no_verdict() {
    let table: &[(VerdictKind, &str, Option<VerdictWord>)] = &[
        (Test, "PASS", None),
        (Test, "The verdict is FAIL because the index is missing.", None),
        (Test, "All checks pass. VERDICT: PASS", None),
        (Test, "## Verdict\n\nThe work would PASS", None),
        (Test, "Overall verdict: not PASS", None),
        (Test, "1. Schema: PASS\n2. Links: PASS", None),
        (Test, "VERDICT: PASS, FAIL, or NEEDS_CHANGES", None),
        (Test, "VERDICT: PASS/FAIL?", None),
        (Test, "VERDICT: PASS\n…\nVERDICT: not PASS", None),
        (Test, "Everything is fine.", None),
        (Test, "", None),
        (Review, "LGTM", None),
        (Review, "APPROVED — with one remark.", None),
        (Review, "I cannot APPROVE this.", None),
    ];
    check(table);
}

fn check(table: &[(VerdictKind, &str, Option<VerdictWord>)]) {
    let mut wrong = Vec::new();
    for (kind, text, expected) in table {
        let read = parse_verdict(*kind, None, text).map(|verdict| verdict.word);
        if read != *expected {
            wrong.push(format!("{kind} {text:?}: {read:?}, not {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn a_submission_comes_before_the_answer() {
    let given = json!({
        "verdict": "NEEDS_CHANGES",
        "steps": [
            { "step": "schema", "result": "PASS" },
            { "step": "cycles", "result": "FAIL", "issue": "none is refused", "suggested_fix": "walk up" },
        ],
        "summary": "Nearly.",
    });
    let verdict = parse_verdict(Test, Some(&given), "VERDICT: PASS").unwrap();
    assert_eq!((verdict.word, verdict.steps.len()), (NeedsChanges, 2));
    assert_eq!(verdict.issues, ["cycles: none is refused Suggested fix: walk up"]);
    let review = json!({
        "verdict": "REQUEST_CHANGES",
        "required_changes": ["rename", { "description": "add an index" }],
        "comments": "fine otherwise",
        "suggestions": ["analytics"],
    });
    let verdict = parse_verdict(Review, Some(&review), "").unwrap();
    assert_eq!(verdict.issues, ["rename", "add an index"]);
    assert_eq!(
        (&verdict.comments[..], &verdict.suggestions[..]),
        (&["fine otherwise".to_owned()][..], &["analytics".to_owned()][..])
    );
}

#[test]
fn a_submission_that_is_no_verdict_leaves_it_to_the_answer() {
    for given in
        [json!({}), json!({ "verdict": "maybe" }), json!({ "verdict": "PASS or FAIL" }), json!("PASS")]
    {
        let verdict = parse_verdict(Test, Some(&given), "There is no index.\nVERDICT: FAIL");
        assert_eq!(verdict.unwrap().issues, ["There is no index.\nVERDICT: FAIL"], "{given}");
    }
}

#[test]
fn a_task_that_is_sent_back_reads_why() {
    let verdict = parse_verdict(Test, None, "Names may be empty.\nVERDICT: FAIL").unwrap();
    assert_eq!(verdict.issues, ["Names may be empty.\nVERDICT: FAIL"]);
    let fine = parse_verdict(Test, None, "Issues:\n- none\nVERDICT: PASS").unwrap();
    assert!(fine.issues.is_empty());
}
