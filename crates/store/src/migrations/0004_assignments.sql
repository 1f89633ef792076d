-- Who wants a pack to be assigned: what was assigned for a product is taken back with it.

ALTER TABLE project_template_packs ADD COLUMN product text; -- null: the project itself

-- Of what is there: a pack that a product brought is assigned for it. So is one that was assigned at
-- the very moment a product was written, since a product and its assignments are one transaction
-- with one time. Where nothing tells, it is the project's own, and stays.
UPDATE project_template_packs SET product = coalesce(
    (SELECT k.product FROM template_packs AS k
     WHERE k.id = project_template_packs.pack_id AND k.project_id = project_template_packs.project_id),
    (SELECT min(i.name) FROM installed_products AS i
     WHERE i.project_id = project_template_packs.project_id
         AND project_template_packs.assigned_at IN (i.installed_at, i.updated_at)));
