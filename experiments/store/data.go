package store

import (
	"context"
	"database/sql"
	"fmt"

	"specrun/experiments/record"
)

// dataTables hold what was measured and known about a run.
var dataTables = [...]string{"metric", "sample", "label", "trust_check", "provenance"}

// putData replaces what is stored of a run's measurements.
func putData(ctx context.Context, tx *sql.Tx, run string, d record.RunData) error {
	for _, table := range dataTables {
		if _, err := tx.ExecContext(ctx, `DELETE FROM `+table+` WHERE run_id = $1`, run); err != nil {
			return fmt.Errorf("run %s: replace its %s rows: %w", run, table, err)
		}
	}
	for i, m := range d.Metrics {
		v, special := number(m.Value)
		_, err := tx.ExecContext(ctx, `INSERT INTO metric (run_id, ord, name, unit, value, value_special, n, source)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, run, i, m.Name, m.Unit, v, special, m.N, m.Source)
		if err != nil {
			return fmt.Errorf("run %s: metric %s: %w", run, m.Name, err)
		}
	}
	if err := putSamples(ctx, tx, run, d.Samples); err != nil {
		return err
	}
	for i, l := range d.Labels {
		_, err := tx.ExecContext(ctx, `INSERT INTO label (run_id, name, reason, ord) VALUES ($1, $2, $3, $4)`,
			run, l.Name, l.Reason, i)
		if err != nil {
			return fmt.Errorf("run %s: label %s: %w", run, l.Name, err)
		}
	}
	for i, c := range d.Checks {
		left, leftSpecial := number(c.Left)
		right, rightSpecial := number(c.Right)
		_, err := tx.ExecContext(ctx, `INSERT INTO trust_check
			(run_id, ord, name, outcome, left_value, left_special, right_value, right_special, explanation)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			run, i, c.Name, string(c.Outcome), left, leftSpecial, right, rightSpecial, c.Explanation)
		if err != nil {
			return fmt.Errorf("run %s: check %s: %w", run, c.Name, err)
		}
	}
	for i, f := range d.Provenance {
		_, err := tx.ExecContext(ctx, `INSERT INTO provenance (run_id, ord, fact_group, key, value)
			VALUES ($1, $2, $3, $4, $5)`, run, i, f.Group, f.Key, f.Value)
		if err != nil {
			return fmt.Errorf("run %s: provenance %s %s: %w", run, f.Group, f.Key, err)
		}
	}
	return nil
}

// addLabels gives a run that has ended labels beside those it has.
func addLabels(ctx context.Context, tx *sql.Tx, run string, labels []record.Label) error {
	was, err := runState(ctx, tx, run)
	if err != nil {
		return err
	}
	if was == record.RunActive {
		return &StateError{What: "run", ID: run, From: string(was), To: "labelled"}
	}
	for _, l := range labels {
		if _, err := tx.ExecContext(ctx, `DELETE FROM label WHERE run_id = $1 AND name = $2`, run, l.Name); err != nil {
			return fmt.Errorf("run %s: label %s: %w", run, l.Name, err)
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO label (run_id, name, reason, ord)
			VALUES ($1, $2, $3, (SELECT COALESCE(MAX(ord), -1) + 1 FROM label WHERE run_id = $1))`, run, l.Name, l.Reason)
		if err != nil {
			return fmt.Errorf("run %s: label %s: %w", run, l.Name, err)
		}
	}
	return nil
}

// putSamples prepares its statement once: a long run has thousands of readings.
func putSamples(ctx context.Context, tx *sql.Tx, run string, samples []record.Sample) (err error) {
	if len(samples) == 0 {
		return nil
	}
	stmt, err := tx.PrepareContext(ctx, `INSERT INTO sample
		(run_id, ord, seq, at_us, name, unit, value, value_special, source, labels)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`)
	if err != nil {
		return fmt.Errorf("run %s: samples: %w", run, err)
	}
	defer func() {
		if cerr := stmt.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("run %s: samples: %w", run, cerr)
		}
	}()
	for i, sm := range samples {
		v, special := number(sm.Value)
		labels, err := encodeStrings(sm.Labels)
		if err != nil {
			return fmt.Errorf("run %s: sample %d: %w", run, i, err)
		}
		_, err = stmt.ExecContext(ctx, run, i, sm.Seq, sm.AtUs, sm.Name, sm.Unit, v, special, sm.Source, labels)
		if err != nil {
			return fmt.Errorf("run %s: sample %d of %s: %w", run, i, sm.Name, err)
		}
	}
	return nil
}
