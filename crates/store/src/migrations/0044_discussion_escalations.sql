-- The inbox asks for a discussion once. A workflow that waits for one had an item of its own in earlier versions.
UPDATE inbox_items SET status = 'withdrawn'
    WHERE status = 'pending' AND kind = 'escalation'
        AND id IN (SELECT id FROM workflows WHERE status = 'escalated' AND escalation->>'discussion' IS NOT NULL);
