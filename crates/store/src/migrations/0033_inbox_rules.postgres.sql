-- The store opens and ends items of the inbox where it writes workflows and objects.
DROP TRIGGER workflows_inbox ON workflows;
DROP FUNCTION kb.change_workflow_inbox();
DROP TRIGGER discussions_inbox ON graph_objects;
DROP FUNCTION kb.change_discussion_inbox();
