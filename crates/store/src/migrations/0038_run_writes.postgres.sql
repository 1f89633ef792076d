-- An update of an object leaves its previous row until the next vacuum. By default that comes when a fifth of the table
-- consists of such rows.
ALTER TABLE graph_objects SET (autovacuum_vacuum_scale_factor = 0.1);
