//! Calls in a row that bring nothing new, of any tools with any arguments: searches for one invented word after the
//! other, or filters that change nothing in what matches.

/// So many calls in a row without anything new are warned about, and as many after the warning end the run.
pub(super) const MAX_IDLE_CALLS: usize = 30;

/// Counts the calls since the newest result that was new.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct IdleCalls {
    count: usize,
    is_warned: bool,
    /// The count when the model had read the warning.
    count_at_warning: Option<usize>,
}

/// What the calls so far say about another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IdleCheck {
    None,
    Warn { count: usize },
    End { count: usize },
}

impl IdleCalls {
    /// The model has answered, so it has read the warning if there was one.
    pub(super) fn record_answer(&mut self) {
        if self.is_warned {
            self.count_at_warning.get_or_insert(self.count);
        }
    }

    /// Checks a call that is about to be made. Only one call is refused with the warning.
    pub(super) fn check(&mut self) -> IdleCheck {
        let count = self.count;
        match self.count_at_warning {
            Some(at_warning) if count >= at_warning + MAX_IDLE_CALLS => IdleCheck::End { count },
            None if !self.is_warned && count >= MAX_IDLE_CALLS => {
                self.is_warned = true;
                IdleCheck::Warn { count }
            }
            _ => IdleCheck::None,
        }
    }

    pub(super) fn record_idle_call(&mut self) {
        self.count += 1;
    }

    pub(super) fn record_news(&mut self) {
        *self = Self::default();
    }
}
