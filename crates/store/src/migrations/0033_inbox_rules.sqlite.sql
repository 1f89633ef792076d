-- The store opens and ends items of the inbox where it writes workflows and objects.
DROP TRIGGER workflows_inbox_opened;
DROP TRIGGER workflows_inbox_ended;
DROP TRIGGER discussions_inbox_inserted;
DROP TRIGGER discussions_inbox_updated;
