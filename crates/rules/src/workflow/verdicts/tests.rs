use emergent_domain::task::VerdictKind::{self, Review, Test};
use serde_json::json;

use super::*;

#[test]
fn words_are_read_as_they_are_meant() {
    let table: &[(VerdictKind, &str, Option<VerdictWord>)] = &[
        (Test, "PASS", Some(Pass)),
        (Test, "VERDICT: PASS", Some(Pass)),
        (Test, "**Verdict: NEEDS_CHANGES**\n\n- cycle detection is missing", Some(NeedsChanges)),
        (Test, "Overall verdict: FAIL", Some(Fail)),
        (Test, "overall verdict: pass.", Some(Pass)),
        (Test, "1. Schema: PASS\n2. Links: FAIL\n\nOverall verdict: NEEDS_CHANGES", Some(NeedsChanges)),
        (Test, "1. Schema: FAIL\n2. Links: FAIL\n\nOverall verdict: PASS", Some(Pass)),
        (Test, "Overall verdict: PASS, FAIL, or NEEDS_CHANGES\n\nI looked at it.", None),
        (Test, "Overall verdict: PASS, FAIL, or NEEDS_CHANGES\nVERDICT: FAIL", Some(Fail)),
        (Test, "PASS or FAIL for each step:\n1. PASS\n2. PASS", Some(Pass)),
        (Test, "This is not a PASS.", None),
        (Test, "VERDICT: not PASS", None),
        (Test, "VERDICT: PASS\n…\nOn reflection, VERDICT: not PASS", None),
        (Test, "VERDICT: FAIL\n\nAfter the fix:\n\nVERDICT: PASS", Some(Pass)),
        (Test, "## Verdict\n\nPASS", Some(Pass)),
        (Test, "### Overall Verdict\n**Needs changes** – two points are open.", Some(NeedsChanges)),
        (Test, "## Verdict\n- Schema: PASS\n- Links: FAIL", None),
        (Test, "Verdict: PASS, no FAIL found", Some(Pass)),
        (Test, "Final verdict — PASS ✅", Some(Pass)),
        (Test, "✅ PASS", Some(Pass)),
        (Test, "The verdict is FAIL because the index is missing.", Some(Fail)),
        (Test, "I would say that this can pass the token to the next stage.", None),
        (Test, "Pass the id to `get_entity` and see.", None),
        (Test, "All 12 tests passed and nothing failed.", None),
        (Test, "1. Schema matches: PASS\n2. Relationship exists: PASS", Some(Pass)),
        (Test, "1. Schema matches: PASS\n2. Relationship exists: FAIL", None),
        (Test, "Everything is fine.", None),
        (Test, "", None),
        (Test, "VERDICT: PASS (the attempt before was a FAIL)", Some(Pass)),
        (Test, "Verdict: NEEDS CHANGES, since duplicates FAIL", Some(NeedsChanges)),
        (Test, "Overall: PASS", Some(Pass)),
        (Test, "Result of step 3: FAIL. It does not PASS.", Some(Fail)),
        (Test, "My conclusion: the implementation does not PASS", None),
        (Test, "VERDICT: APPROVED", Some(Pass)),
        (
            Test,
            "```json\n{\"verdict\": \"NEEDS_CHANGES\", \"issues\": [\"no index\"]}\n```",
            Some(NeedsChanges),
        ),
        (Test, "I can't give a verdict: the implementation is not in the graph.", None),
        (Test, "A verdict of PASS would be premature.", None),
        (Test, "FAIL: empty names are accepted", Some(Fail)),
        (Test, "needs_changes", Some(NeedsChanges)),
        (Test, "VERDICT: PASS/FAIL?", None),
        (Review, "APPROVE", Some(Approve)),
        (Review, "Approved. Looks complete.", Some(Approve)),
        (Review, "APPROVED — with one remark.", Some(Approve)),
        (Review, "Overall assessment: REQUEST_CHANGES\n\nIssues:\n- names", Some(RequestChanges)),
        (Review, "**Overall assessment:** COMMENT", Some(Comment)),
        (Review, "VERDICT: COMMENT. Consider analytics.", Some(Comment)),
        (Review, "Verdict: Request changes", Some(RequestChanges)),
        (Review, "Verdict: changes requested", Some(RequestChanges)),
        (Review, "I cannot APPROVE this.", None),
        (Review, "Overall assessment: APPROVE, REQUEST_CHANGES, or COMMENT", None),
        (Review, "Comment on line 3: rename it.", None),
        (Review, "See the comment above.", None),
        (Review, "LGTM", Some(Approve)),
        (Review, "It reads well.\n\nAPPROVE", Some(Approve)),
        (Review, "VERDICT: PASS", Some(Approve)),
        (Review, "VERDICT: FAIL", Some(RequestChanges)),
        (Review, "Do not approve until the index is there.\n\nREQUEST_CHANGES", Some(RequestChanges)),
        (Review, "Decision: approve", Some(Approve)),
        (Review, "I never said APPROVE; REQUEST_CHANGES is my word.", Some(RequestChanges)),
        (VerdictKind::None, "VERDICT: PASS", None),
    ];
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
fn what_was_handed_in_comes_before_words() {
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
fn what_cannot_be_a_verdict_leaves_it_to_the_words() {
    for given in
        [json!({}), json!({ "verdict": "maybe" }), json!({ "verdict": "PASS or FAIL" }), json!("PASS")]
    {
        let verdict = parse_verdict(Test, Some(&given), "VERDICT: FAIL\nIssues:\n1. no index\n2. no key");
        assert_eq!(verdict.unwrap().issues, ["no index", "no key"], "{given}");
    }
}

#[test]
fn whoever_is_sent_back_is_told_why() {
    let verdict = parse_verdict(Test, None, "Names may be empty. VERDICT: FAIL").unwrap();
    assert_eq!(verdict.issues, ["Names may be empty. VERDICT: FAIL"]);
    let fine = parse_verdict(Test, None, "VERDICT: PASS\nIssues:\n- none").unwrap();
    assert!(fine.issues.is_empty());
    let approved = parse_verdict(Review, None, "APPROVE\n\nSuggestions:\n- usage figures").unwrap();
    assert_eq!(approved.suggestions, ["usage figures"]);
}
