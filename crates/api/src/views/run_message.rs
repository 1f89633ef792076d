//! Converts the messages of a run for the API. The JSON of the content depends on the kind of message.

use emergent_executor::timeline::{RunMessage, RunMessageContent, ToolCallRef};
pub(crate) use emergent_wire::run_message::*;

use super::IntoView;

impl IntoView<RunMessageView> for RunMessage {
    fn into_view(self) -> RunMessageView {
        let message = self;
        RunMessageView {
            id: message.id,
            run_id: message.run.0,
            role: message.role,
            content: message.content.into_view(),
            step_number: message.step,
            tokens: message.usage.map(Into::into),
            cost: message.cost,
            created_at: message.at,
        }
    }
}

impl IntoView<ContentView> for RunMessageContent {
    fn into_view(self) -> ContentView {
        let content = self;
        match content {
            RunMessageContent::Text { text, injected } => {
                ContentView::Text(TextContent { text, injected, summary: false })
            }
            RunMessageContent::Summary { text, .. } => {
                ContentView::Text(TextContent { text, injected: None, summary: true })
            }
            RunMessageContent::Answer { text, thoughts, calls } => {
                let tool_calls = calls.into_iter().map(IntoView::into_view).collect();
                ContentView::Answer(AnswerContent { text, thoughts, tool_calls })
            }
            RunMessageContent::Result { call, tool, output, is_error } => {
                ContentView::Result(ResultContent { tool_call_id: call.0, tool_name: tool, output, is_error })
            }
        }
    }
}

impl IntoView<ToolCallRefView> for ToolCallRef {
    fn into_view(self) -> ToolCallRefView {
        let call = self;
        ToolCallRefView { id: call.id.0, tool_name: call.tool, status: Some(call.status.into()) }
    }
}
