-- A slot of a quote that is not taken any more, since another cell became the
-- best: without a result it does not count as missing.

-- +goose Up
ALTER TABLE slot ADD COLUMN closed BIGINT NOT NULL DEFAULT 0 CHECK (closed IN (0, 1));
