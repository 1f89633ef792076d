-- Since when a person has paused the schedule. `next_at` is null then, so that no server finds it due.
ALTER TABLE schedules ADD COLUMN paused_at timestamptz;
