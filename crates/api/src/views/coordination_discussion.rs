//! Converts discussions for the API.

use emergent_coordination::DiscussionDetail;
pub(crate) use emergent_wire::discussion::*;

use super::IntoView;

impl IntoView<DiscussionView> for DiscussionDetail {
    fn into_view(self) -> DiscussionView {
        DiscussionView::new(&self.discussion, &self.entries, self.runs)
    }
}
