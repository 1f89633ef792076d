//! How many discussions one attempt at a task can have. Each of them costs the turns of its participants, and a
//! participant can start another one.

/// So many discussions of one attempt agents can start.
pub const MAX_STARTED_DISCUSSIONS: i64 = 10;
/// So many discussions of one attempt there can be, with the reviews that the dispatcher opens. A review that is taken
/// out of the graph is opened again, but not without end.
pub const MAX_OPENED_DISCUSSIONS: i64 = MAX_STARTED_DISCUSSIONS + 2;

/// Why an attempt whose review was opened again and again has failed.
pub fn endless_discussions_error(count: i64) -> String {
    format!(
        "its result was not reviewed: {count} discussions of this attempt were started, and the limit is \
         {MAX_OPENED_DISCUSSIONS}"
    )
}
