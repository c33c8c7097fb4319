package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"specrun/experiments/record"
)

// SweepFilter selects sweeps. Zero fields select all.
type SweepFilter struct {
	Name   string // the experiment's
	Kinds  []string
	States []record.SweepState
	Host   string
	Begun  bool // no interrupted sweep of which no launch was ever begun
	Limit  int  // newest first; 0 = all
}

// ListSweeps lists sweeps, newest first.
func (s *Store) ListSweeps(ctx context.Context, f SweepFilter) ([]record.SweepRow, error) {
	var w where
	w.equal("sweep.name", f.Name)
	w.in("sweep.kind", f.Kinds)
	w.in("sweep.state", names(f.States))
	if f.Host != "" {
		w.add("sweep.id IN (SELECT sweep_id FROM launch WHERE host = " + w.arg(f.Host) + ")")
	}
	if f.Begun {
		w.add("(sweep.state <> " + w.arg(string(record.SweepInterrupted)) + " OR EXISTS (SELECT 1 FROM launch WHERE launch.sweep_id = sweep.id))")
	}
	query := `SELECT sweep.id, sweep.name, sweep.kind, sweep.plan_sha, sweep.state, sweep.created_us, sweep.ended_us,
		(SELECT COUNT(*) FROM cell WHERE cell.sweep_id = sweep.id),
		(SELECT COUNT(*) FROM slot JOIN cell ON cell.id = slot.cell_id WHERE cell.sweep_id = sweep.id AND slot.closed = 0),
		(SELECT COUNT(*) FROM run JOIN launch ON launch.id = run.launch_id WHERE launch.sweep_id = sweep.id AND run.state = 'done'),
		(SELECT COUNT(*) FROM run JOIN launch ON launch.id = run.launch_id WHERE launch.sweep_id = sweep.id AND run.state = 'failed'),
		(SELECT COUNT(*) FROM launch WHERE launch.sweep_id = sweep.id)
		FROM sweep` + w.clause() + ` ORDER BY sweep.ord DESC` + w.limit(f.Limit)
	var out []record.SweepRow
	err := s.read(ctx, func(tx *sql.Tx) error {
		var err error
		out, err = collect(ctx, tx, func(rows *sql.Rows) (r record.SweepRow, err error) {
			err = rows.Scan(&r.Sweep.ID, &r.Sweep.Name, &r.Sweep.Kind, &r.Sweep.PlanSHA, &r.Sweep.State,
				&r.Sweep.CreatedUs, &r.Sweep.EndedUs, &r.Cells, &r.Slots, &r.Done, &r.Failed, &r.Launches)
			return r, err
		}, query, w.args...)
		if err != nil {
			return err
		}
		for i := range out {
			out[i].Hosts, err = collect(ctx, tx, func(rows *sql.Rows) (h string, err error) { return h, rows.Scan(&h) },
				`SELECT DISTINCT host FROM launch WHERE sweep_id = $1 AND host <> '' ORDER BY host`, out[i].Sweep.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list sweeps: %w", err)
	}
	return out, nil
}

// RunFilter selects runs. Zero fields select all.
type RunFilter struct {
	SweepID string
	Name    string // the experiment's
	Host    string
	States  []record.RunState
	Label   string // runs that carry this label
	Limit   int    // newest first; 0 = all
}

// ListRuns lists runs, newest first.
func (s *Store) ListRuns(ctx context.Context, f RunFilter) ([]record.RunRow, error) {
	var w where
	w.equal("sweep.id", f.SweepID)
	w.equal("sweep.name", f.Name)
	w.equal("run.host", f.Host)
	w.in("run.state", names(f.States))
	if f.Label != "" {
		w.add("run.id IN (SELECT run_id FROM label WHERE name = " + w.arg(f.Label) + ")")
	}
	query := `SELECT sweep.id, sweep.name, sweep.kind,
		cell.id, cell.ord, cell.key, cell.params, cell.baseline, slot.id, slot.round, slot.repeat,
		run.id, run.attempt, run.launch_id, run.host, run.state, run.class, run.reason, run.start_us, run.end_us
		FROM run JOIN slot ON slot.id = run.slot_id JOIN cell ON cell.id = slot.cell_id
		JOIN sweep ON sweep.id = cell.sweep_id` + w.clause() + ` ORDER BY run.ord DESC` + w.limit(f.Limit)
	var out []record.RunRow
	err := s.read(ctx, func(tx *sql.Tx) error {
		var err error
		out, err = collect(ctx, tx, scanRunRow, query, w.args...)
		if err != nil {
			return err
		}
		for i := range out {
			id := out[i].Run.ID
			err := each(ctx, tx, func(rows *sql.Rows) error {
				_, m, err := scanMetric(rows)
				out[i].Metrics = append(out[i].Metrics, m)
				return err
			}, selectMetric+` WHERE run_id = $1 ORDER BY ord`, id)
			if err != nil {
				return err
			}
			out[i].Labels, err = collect(ctx, tx, func(rows *sql.Rows) (l record.Label, err error) {
				return l, rows.Scan(&l.Name, &l.Reason)
			}, `SELECT name, reason FROM label WHERE run_id = $1 ORDER BY ord`, id)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return out, nil
}

func scanRunRow(rows *sql.Rows) (record.RunRow, error) {
	var r record.RunRow
	var params string
	var baseline int
	err := rows.Scan(&r.SweepID, &r.SweepName, &r.Kind,
		&r.Cell.ID, &r.Cell.Ord, &r.Cell.Key, &params, &baseline, &r.Slot.ID, &r.Slot.Round, &r.Slot.Repeat,
		&r.Run.ID, &r.Run.Attempt, &r.Run.LaunchID, &r.Run.Host, &r.Run.State, &r.Run.Class, &r.Run.Reason,
		&r.Run.StartUs, &r.Run.EndUs)
	if err != nil {
		return r, err
	}
	r.Cell.SweepID, r.Cell.Baseline = r.SweepID, baseline != 0
	r.Slot.CellID, r.Run.SlotID = r.Cell.ID, r.Slot.ID
	r.Cell.Params, err = decodeParams(params)
	return r, err
}

// where builds the conditions of a query. Values travel as arguments only.
type where struct {
	conditions []string
	args       []any
}

// arg adds an argument and gives its placeholder.
func (w *where) arg(v any) string {
	w.args = append(w.args, v)
	return fmt.Sprintf("$%d", len(w.args))
}

func (w *where) add(condition string) { w.conditions = append(w.conditions, condition) }

func (w *where) equal(column, value string) {
	if value != "" {
		w.add(column + " = " + w.arg(value))
	}
}

func (w *where) in(column string, values []string) {
	if len(values) == 0 {
		return
	}
	marks := make([]string, len(values))
	for i, v := range values {
		marks[i] = w.arg(v)
	}
	w.add(column + " IN (" + strings.Join(marks, ", ") + ")")
}

func (w *where) clause() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

func (w *where) limit(n int) string {
	if n <= 0 {
		return ""
	}
	return " LIMIT " + w.arg(n)
}

func names[S ~string](in []S) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = string(s)
	}
	return out
}
