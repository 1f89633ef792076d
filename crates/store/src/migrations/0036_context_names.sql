-- The name that a caller from outside gave a conversation, such as a `contextId` of A2A that a client made. The id of
-- such a conversation is made of the caller, the agent and the name, so that a name never leads to one of another caller.
ALTER TABLE chat_conversations ADD COLUMN external_id text;
