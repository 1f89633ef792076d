//! Tools of the caller, as far as protocols have them in common: problems with them name the fields of the request.

use emergent_domain::invalid::Invalid;

/// Names the fields of a request in problems with the tools that it offers. `inner` is between a tool and its fields:
/// empty, or such as `.function`.
pub(crate) fn rename_tool_fields(mut invalid: Invalid, inner: &str) -> Invalid {
    for problem in &mut invalid.problems {
        let Some(rest) = problem.field.strip_prefix("clientTools") else { continue };
        let rest = rest.replace(".inputSchema", ".parameters").replace("].", &format!("]{inner}."));
        problem.field = format!("tools{rest}");
    }
    invalid
}

/// Names the messages of a request in problems with the results of tools. `messages` are the positions of the messages
/// that have the results, and `call_field` is the field of a message with the id of its call.
pub(crate) fn rename_result_fields(mut invalid: Invalid, messages: &[usize], call_field: &str) -> Invalid {
    for problem in &mut invalid.problems {
        let Some(rest) = problem.field.strip_prefix("results") else { continue };
        let index = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let index = index.and_then(|(index, field)| Some((index.parse::<usize>().ok()?, field)));
        problem.field = match index.and_then(|(index, field)| Some((messages.get(index)?, field))) {
            Some((message, ".call")) => format!("messages[{message}].{call_field}"),
            Some((message, _)) => format!("messages[{message}].content"),
            None => "messages".to_owned(),
        };
    }
    invalid
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_with_tools_and_results_name_the_fields_of_the_request() {
        let tool = |field: &str, inner: &str| {
            rename_tool_fields(Invalid::new(field, "no"), inner).problems[0].field.clone()
        };
        assert_eq!(tool("clientTools[1].inputSchema", ""), "tools[1].parameters");
        assert_eq!(tool("clientTools[1].inputSchema", ".function"), "tools[1].function.parameters");
        assert_eq!((tool("clientTools", ".function"), tool("input", "")), ("tools".into(), "input".into()));
        let result = |field: &str| {
            rename_result_fields(Invalid::new(field, "no"), &[4, 5], "toolCallId").problems[0].field.clone()
        };
        assert_eq!(result("results[1].call"), "messages[5].toolCallId");
        assert_eq!(result("results[0].output"), "messages[4].content");
        assert_eq!((result("results"), result("results[2].call")), ("messages".into(), "messages".into()));
    }
}
