-- Names are plain on purpose: people read this file with the sqlite3 program.
-- Times are microseconds since the epoch, UTC; 0 means not yet. Columns that
-- hold JSON hold it as text. A number that is not finite is NULL, and the
-- column ending in _special then says NaN, Inf or -Inf. "ord" keeps the order
-- in which rows came.

-- +goose Up
CREATE TABLE sweep (
    id         TEXT PRIMARY KEY NOT NULL,
    name       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    spec       TEXT,
    plan       TEXT,
    plan_sha   TEXT NOT NULL,
    state      TEXT NOT NULL CHECK (state IN ('active', 'done', 'incomplete', 'interrupted')),
    created_us BIGINT NOT NULL,
    ended_us   BIGINT NOT NULL DEFAULT 0,
    ord        BIGINT NOT NULL UNIQUE
);
-- A file that was imported once is found again by the hash of its content.
CREATE UNIQUE INDEX sweep_import ON sweep (plan_sha) WHERE kind = 'import';

CREATE TABLE cell (
    id       TEXT PRIMARY KEY NOT NULL,
    sweep_id TEXT NOT NULL REFERENCES sweep (id),
    ord      BIGINT NOT NULL,
    key      TEXT NOT NULL,
    params   TEXT NOT NULL,
    baseline INTEGER NOT NULL DEFAULT 0,
    UNIQUE (sweep_id, ord)
);
CREATE INDEX cell_key ON cell (key);

CREATE TABLE launch (
    id       TEXT PRIMARY KEY NOT NULL,
    sweep_id TEXT NOT NULL REFERENCES sweep (id),
    host     TEXT NOT NULL,
    round    INTEGER NOT NULL,
    argv     TEXT,
    identity TEXT,
    state    TEXT NOT NULL CHECK (state IN ('planned', 'active', 'done', 'failed', 'cut')),
    ord      BIGINT NOT NULL UNIQUE
);
CREATE INDEX launch_sweep ON launch (sweep_id);

CREATE TABLE slot (
    id      TEXT PRIMARY KEY NOT NULL,
    cell_id TEXT NOT NULL REFERENCES cell (id),
    round   INTEGER NOT NULL,
    repeat  INTEGER NOT NULL,
    ord     BIGINT NOT NULL,
    UNIQUE (cell_id, round, repeat)
);

CREATE TABLE run (
    id        TEXT PRIMARY KEY NOT NULL,
    slot_id   TEXT NOT NULL REFERENCES slot (id),
    attempt   INTEGER NOT NULL,
    launch_id TEXT NOT NULL REFERENCES launch (id),
    host      TEXT NOT NULL,
    state     TEXT NOT NULL CHECK (state IN ('active', 'done', 'failed', 'cut', 'superseded')),
    class     TEXT NOT NULL DEFAULT '',
    reason    TEXT NOT NULL DEFAULT '',
    start_us  BIGINT NOT NULL DEFAULT 0,
    end_us    BIGINT NOT NULL DEFAULT 0,
    ord       BIGINT NOT NULL UNIQUE,
    UNIQUE (slot_id, attempt)
);
-- A slot is filled at most once: this index is what makes "each run counted
-- once" true whatever kills and resumes happen.
CREATE UNIQUE INDEX run_result ON run (slot_id) WHERE state IN ('done', 'failed');
CREATE INDEX run_launch ON run (launch_id);

CREATE TABLE event (
    launch_id  TEXT NOT NULL REFERENCES launch (id),
    seq        BIGINT NOT NULL,
    run_id     TEXT REFERENCES run (id),
    at_us      BIGINT NOT NULL,
    host_at_us BIGINT NOT NULL DEFAULT 0,
    step       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    evidence   TEXT,
    ord        BIGINT NOT NULL UNIQUE,
    PRIMARY KEY (launch_id, seq)
);

CREATE TABLE metric (
    run_id        TEXT NOT NULL REFERENCES run (id),
    ord           INTEGER NOT NULL,
    name          TEXT NOT NULL,
    unit          TEXT NOT NULL,
    value         DOUBLE PRECISION,
    value_special TEXT NOT NULL DEFAULT '',
    n             INTEGER NOT NULL,
    source        TEXT NOT NULL,
    PRIMARY KEY (run_id, ord)
);
CREATE INDEX metric_name ON metric (name);

CREATE TABLE sample (
    run_id        TEXT NOT NULL REFERENCES run (id),
    ord           INTEGER NOT NULL,
    seq           INTEGER NOT NULL,
    at_us         BIGINT NOT NULL,
    name          TEXT NOT NULL,
    unit          TEXT NOT NULL,
    value         DOUBLE PRECISION,
    value_special TEXT NOT NULL DEFAULT '',
    source        TEXT NOT NULL,
    labels        TEXT,
    PRIMARY KEY (run_id, ord)
);

CREATE TABLE label (
    run_id TEXT NOT NULL REFERENCES run (id),
    name   TEXT NOT NULL,
    reason TEXT NOT NULL,
    ord    INTEGER NOT NULL,
    PRIMARY KEY (run_id, name)
);
CREATE INDEX label_name ON label (name);

CREATE TABLE trust_check (
    run_id        TEXT NOT NULL REFERENCES run (id),
    ord           INTEGER NOT NULL,
    name          TEXT NOT NULL,
    outcome       TEXT NOT NULL,
    left_value    DOUBLE PRECISION,
    left_special  TEXT NOT NULL DEFAULT '',
    right_value   DOUBLE PRECISION,
    right_special TEXT NOT NULL DEFAULT '',
    explanation   TEXT NOT NULL,
    PRIMARY KEY (run_id, ord)
);

CREATE TABLE provenance (
    run_id     TEXT NOT NULL REFERENCES run (id),
    ord        INTEGER NOT NULL,
    fact_group TEXT NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL,
    PRIMARY KEY (run_id, ord)
);
CREATE INDEX provenance_key ON provenance (fact_group, key);

CREATE TABLE artifact (
    launch_id TEXT NOT NULL REFERENCES launch (id),
    run_id    TEXT REFERENCES run (id),
    name      TEXT NOT NULL,
    path      TEXT NOT NULL, -- relative to the folder of this database
    sha256    TEXT NOT NULL,
    bytes     BIGINT NOT NULL,
    ord       BIGINT NOT NULL UNIQUE
);
CREATE UNIQUE INDEX artifact_name ON artifact (launch_id, COALESCE(run_id, ''), name);

CREATE TABLE claim (
    sweep_id   TEXT PRIMARY KEY NOT NULL REFERENCES sweep (id),
    controller TEXT NOT NULL,
    expires_us BIGINT NOT NULL
);

-- One row per run and metric with all that names it: SELECT * FROM result.
CREATE VIEW result AS
SELECT sweep.id AS sweep_id, sweep.name AS sweep, cell.ord AS cell, cell.params AS params,
       cell.baseline AS baseline, slot.round AS round, slot.repeat AS repeat,
       run.id AS run_id, run.host AS host, run.state AS state, run.class AS class,
       metric.name AS metric, metric.unit AS unit, metric.value AS value,
       metric.n AS n, metric.source AS source
FROM run
JOIN slot ON slot.id = run.slot_id
JOIN cell ON cell.id = slot.cell_id
JOIN sweep ON sweep.id = cell.sweep_id
LEFT JOIN metric ON metric.run_id = run.id;
