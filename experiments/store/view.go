package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"specrun/experiments/record"
)

// View reads all that is stored of a sweep, as of one moment. The id must be
// whole: see SweepID for prefixes. An unknown one is ErrNotFound.
func (s *Store) View(ctx context.Context, sweepID string) (record.SweepView, error) {
	var v record.SweepView
	err := s.read(ctx, func(tx *sql.Tx) error {
		var err error
		v, err = s.journal(ctx, tx, sweepID)
		if err == nil {
			v.Data, err = readData(ctx, tx, ` WHERE run_id IN (SELECT run.id FROM run
				JOIN launch ON launch.id = run.launch_id WHERE launch.sweep_id = $1)`, sweepID)
		}
		return err
	})
	if err != nil {
		return record.SweepView{}, fmt.Errorf("read sweep: %w", err)
	}
	return v, nil
}

// journal is View without data.
func (s *Store) journal(ctx context.Context, tx *sql.Tx, sweepID string) (v record.SweepView, err error) {
	sweeps, err := collect(ctx, tx, scanSweep, selectSweep+` WHERE id = $1`, sweepID)
	if err != nil {
		return v, err
	}
	if len(sweeps) == 0 {
		return v, &NotFoundError{What: "sweep", ID: sweepID}
	}
	v.Sweep = sweeps[0]
	const inSweep = ` WHERE launch_id IN (SELECT id FROM launch WHERE sweep_id = $1) ORDER BY ord`
	v.Cells, err = collect(ctx, tx, scanCell, selectCell+` WHERE sweep_id = $1 ORDER BY ord`, sweepID)
	if err == nil {
		v.Slots, err = collect(ctx, tx, scanSlot, selectSlot+
			` WHERE cell_id IN (SELECT id FROM cell WHERE sweep_id = $1) ORDER BY ord`, sweepID)
	}
	if err == nil {
		v.Launches, err = collect(ctx, tx, scanLaunch, selectLaunch+` WHERE sweep_id = $1 ORDER BY ord`, sweepID)
	}
	if err == nil {
		v.Runs, err = collect(ctx, tx, scanRun, selectRun+inSweep, sweepID)
	}
	if err == nil {
		v.Events, err = collect(ctx, tx, scanEvent, selectEvent+inSweep, sweepID)
	}
	if err == nil {
		v.Artifact, err = collect(ctx, tx, s.scanArtifact, selectArtifact+inSweep, sweepID)
	}
	return v, err
}

// Run reads one run by its id or an unambiguous beginning of it. It fails with
// ErrNotFound or *AmbiguousError.
func (s *Store) Run(ctx context.Context, idOrPrefix string) (record.RunView, error) {
	var v record.RunView
	err := s.read(ctx, func(tx *sql.Tx) error {
		id, err := resolve(ctx, tx, "run", idOrPrefix)
		if err != nil {
			return err
		}
		if v.Run, err = one(ctx, tx, scanRun, selectRun+` WHERE id = $1`, id); err != nil {
			return err
		}
		if v.Slot, err = one(ctx, tx, scanSlot, selectSlot+` WHERE id = $1`, v.Run.SlotID); err != nil {
			return err
		}
		if v.Cell, err = one(ctx, tx, scanCell, selectCell+` WHERE id = $1`, v.Slot.CellID); err != nil {
			return err
		}
		if v.Sweep, err = one(ctx, tx, scanSweep, selectSweep+` WHERE id = $1`, v.Cell.SweepID); err != nil {
			return err
		}
		if v.Launch, err = one(ctx, tx, scanLaunch, selectLaunch+` WHERE id = $1`, v.Run.LaunchID); err != nil {
			return err
		}
		v.Events, err = collect(ctx, tx, scanEvent, selectEvent+` WHERE launch_id = $1 ORDER BY ord`, v.Run.LaunchID)
		if err != nil {
			return err
		}
		v.Artifacts, err = collect(ctx, tx, s.scanArtifact, selectArtifact+
			` WHERE launch_id = $1 AND COALESCE(run_id, $2) = $2 ORDER BY ord`, v.Run.LaunchID, id)
		if err != nil {
			return err
		}
		data, err := readData(ctx, tx, ` WHERE run_id = $1`, id)
		v.Data = data[id]
		return err
	})
	if err != nil {
		return record.RunView{}, fmt.Errorf("read run: %w", err)
	}
	return v, nil
}

// readData reads the measurements of the runs that where selects, by run id.
func readData(ctx context.Context, tx *sql.Tx, where, arg string) (map[string]record.RunData, error) {
	out := map[string]record.RunData{}
	const order = ` ORDER BY run_id, ord`
	err := each(ctx, tx, func(rows *sql.Rows) error {
		id, m, err := scanMetric(rows)
		d := out[id]
		d.Metrics = append(d.Metrics, m)
		out[id] = d
		return err
	}, selectMetric+where+order, arg)
	if err != nil {
		return nil, err
	}
	err = each(ctx, tx, func(rows *sql.Rows) error {
		id, sm, err := scanSample(rows)
		d := out[id]
		d.Samples = append(d.Samples, sm)
		out[id] = d
		return err
	}, selectSample+where+order, arg)
	if err != nil {
		return nil, err
	}
	err = each(ctx, tx, func(rows *sql.Rows) error {
		var id string
		var l record.Label
		err := rows.Scan(&id, &l.Name, &l.Reason)
		d := out[id]
		d.Labels = append(d.Labels, l)
		out[id] = d
		return err
	}, `SELECT run_id, name, reason FROM label`+where+order, arg)
	if err != nil {
		return nil, err
	}
	err = each(ctx, tx, func(rows *sql.Rows) error {
		id, c, err := scanCheck(rows)
		d := out[id]
		d.Checks = append(d.Checks, c)
		out[id] = d
		return err
	}, selectCheck+where+order, arg)
	if err != nil {
		return nil, err
	}
	err = each(ctx, tx, func(rows *sql.Rows) error {
		var id string
		var f record.Fact
		err := rows.Scan(&id, &f.Group, &f.Key, &f.Value)
		d := out[id]
		d.Provenance = append(d.Provenance, f)
		out[id] = d
		return err
	}, `SELECT run_id, fact_group, key, value FROM provenance`+where+order, arg)
	return out, err
}

// each calls f on every row.
func each(ctx context.Context, tx *sql.Tx, f func(*sql.Rows) error, query string, args ...any) (err error) {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := f(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

func collect[T any](ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) (T, error), query string, args ...any) ([]T, error) {
	var out []T
	err := each(ctx, tx, func(rows *sql.Rows) error {
		v, err := scan(rows)
		out = append(out, v)
		return err
	}, query, args...)
	return out, err
}

// one reads a row that a foreign key says is there.
func one[T any](ctx context.Context, tx *sql.Tx, scan func(*sql.Rows) (T, error), query string, id string) (T, error) {
	all, err := collect(ctx, tx, scan, query, id)
	var zero T
	if err != nil {
		return zero, err
	}
	if len(all) != 1 {
		return zero, &NotFoundError{What: "row", ID: id}
	}
	return all[0], nil
}
