-- A tag is a name that the user gave to a sweep, a cell or a run: exactly one
-- of the three columns is set.

-- +goose Up
CREATE TABLE tag (
    name     TEXT PRIMARY KEY NOT NULL,
    sweep_id TEXT REFERENCES sweep (id),
    cell_id  TEXT REFERENCES cell (id),
    run_id   TEXT REFERENCES run (id),
    set_us   BIGINT NOT NULL,
    CHECK (CASE WHEN sweep_id IS NULL THEN 0 ELSE 1 END
         + CASE WHEN cell_id IS NULL THEN 0 ELSE 1 END
         + CASE WHEN run_id IS NULL THEN 0 ELSE 1 END = 1)
);
