package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"specrun/experiments/record"
)

// Begin stores a sweep with all its cells and slots, in one transaction. A
// second Begin of the same sweep is ErrExists and changes nothing.
func (s *Store) Begin(ctx context.Context, p record.SweepPlan) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		if err := insertSweep(ctx, tx, p.Sweep); err != nil {
			if isUnique(err) {
				return fmt.Errorf("begin sweep %s: %w", p.Sweep.ID, ErrExists)
			}
			return fmt.Errorf("begin sweep %s: %w", p.Sweep.ID, err)
		}
		for _, c := range p.Cells {
			if err := insertCell(ctx, tx, c); err != nil {
				return fmt.Errorf("begin sweep %s: cell %s: %w", p.Sweep.ID, c.ID, err)
			}
		}
		for i, sl := range p.Slots {
			if err := insertSlot(ctx, tx, sl, i); err != nil {
				return fmt.Errorf("begin sweep %s: slot %s: %w", p.Sweep.ID, sl.ID, err)
			}
		}
		return nil
	})
}

// Record stores an event and what it changes in one transaction: either both
// are on disk when it returns nil, or neither is. ErrEventRecorded,
// ErrSlotFilled and *StateError mean that the change does not fit what is
// stored; repeating the call cannot help then.
func (s *Store) Record(ctx context.Context, e record.Event, c record.Change) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		if c.Launch != nil {
			if err := putLaunch(ctx, tx, *c.Launch); err != nil {
				return err
			}
		}
		if c.Supersede != "" {
			if err := supersede(ctx, tx, c.Supersede); err != nil {
				return err
			}
		}
		if c.Run != nil {
			if err := putRun(ctx, tx, *c.Run); err != nil {
				return err
			}
		}
		if c.Data != nil {
			if c.Run == nil {
				return errors.New("data without the run that measured it")
			}
			if err := putData(ctx, tx, c.Run.ID, *c.Data); err != nil {
				return err
			}
		}
		for run, labels := range c.Labels {
			if err := addLabels(ctx, tx, run, labels); err != nil {
				return err
			}
		}
		if c.SweepState != "" {
			if err := setSweepState(ctx, tx, c.SweepID, c.SweepState, e.AtUs); err != nil {
				return err
			}
		}
		return insertEvent(ctx, tx, e)
	})
	if err != nil {
		return fmt.Errorf("record event %d (%s %s) of launch %s: %w", e.Seq, e.Step, e.Kind, e.LaunchID, err)
	}
	return nil
}

func insertSweep(ctx context.Context, tx *sql.Tx, s record.Sweep) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO sweep
		(id, name, kind, spec, plan, plan_sha, state, created_us, ended_us, ord)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, (SELECT COALESCE(MAX(ord), 0) + 1 FROM sweep))`,
		s.ID, s.Name, s.Kind, text(s.Spec), text(s.Plan), s.PlanSHA, string(s.State), s.CreatedUs, s.EndedUs)
	return err
}

func insertCell(ctx context.Context, tx *sql.Tx, c record.Cell) error {
	params, err := encodeParams(c.Params)
	if err != nil {
		return err
	}
	baseline := 0
	if c.Baseline {
		baseline = 1
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO cell (id, sweep_id, ord, key, params, baseline)
		VALUES ($1, $2, $3, $4, $5, $6)`, c.ID, c.SweepID, c.Ord, c.Key, params, baseline)
	return err
}

func insertSlot(ctx context.Context, tx *sql.Tx, sl record.Slot, ord int) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO slot (id, cell_id, round, repeat, ord)
		VALUES ($1, $2, $3, $4, $5)`, sl.ID, sl.CellID, sl.Round, sl.Repeat, ord)
	return err
}

// putLaunch inserts a launch, or brings its state, command and identity up to
// date. Command and identity once known stay when the new value has none.
func putLaunch(ctx context.Context, tx *sql.Tx, l record.Launch) error {
	var was string
	err := tx.QueryRowContext(ctx, `SELECT state FROM launch WHERE id = $1`, l.ID).Scan(&was)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return insertLaunch(ctx, tx, l)
	case err != nil:
		return fmt.Errorf("launch %s: %w", l.ID, err)
	}
	if from := record.LaunchState(was); from != l.State {
		switch from {
		case record.LaunchDone, record.LaunchFailed, record.LaunchCut:
			return &StateError{What: "launch", ID: l.ID, From: was, To: string(l.State)}
		}
	}
	argv, err := encodeArgv(l.Argv)
	if err != nil {
		return fmt.Errorf("launch %s: %w", l.ID, err)
	}
	_, err = tx.ExecContext(ctx, `UPDATE launch SET state = $2, argv = COALESCE($3, argv),
		identity = COALESCE($4, identity) WHERE id = $1`, l.ID, string(l.State), argv, text(l.Identity))
	if err != nil {
		return fmt.Errorf("launch %s: %w", l.ID, err)
	}
	return nil
}

func insertLaunch(ctx context.Context, tx *sql.Tx, l record.Launch) error {
	argv, err := encodeArgv(l.Argv)
	if err != nil {
		return fmt.Errorf("launch %s: %w", l.ID, err)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO launch (id, sweep_id, host, round, argv, identity, state, ord)
		VALUES ($1, $2, $3, $4, $5, $6, $7, (SELECT COALESCE(MAX(ord), 0) + 1 FROM launch))`,
		l.ID, l.SweepID, l.Host, l.Round, argv, text(l.Identity), string(l.State))
	if err != nil {
		return fmt.Errorf("launch %s: %w", l.ID, err)
	}
	return nil
}

func encodeArgv(argv []string) (any, error) {
	if argv == nil {
		return nil, nil
	}
	raw, err := json.Marshal(argv)
	return string(raw), err
}

// supersede takes a failed run out of its slot, so that another attempt fits.
func supersede(ctx context.Context, tx *sql.Tx, id string) error {
	was, err := runState(ctx, tx, id)
	if err != nil {
		return err
	}
	if was != record.RunFailed {
		return &StateError{What: "run", ID: id, From: string(was), To: string(record.RunSuperseded)}
	}
	_, err = tx.ExecContext(ctx, `UPDATE run SET state = $2 WHERE id = $1`, id, string(record.RunSuperseded))
	if err != nil {
		return fmt.Errorf("run %s: %w", id, err)
	}
	return nil
}

func runState(ctx context.Context, tx *sql.Tx, id string) (record.RunState, error) {
	var was string
	err := tx.QueryRowContext(ctx, `SELECT state FROM run WHERE id = $1`, id).Scan(&was)
	if errors.Is(err, sql.ErrNoRows) {
		return "", &NotFoundError{What: "run", ID: id}
	}
	if err != nil {
		return "", fmt.Errorf("run %s: %w", id, err)
	}
	return record.RunState(was), nil
}

// putRun inserts a run, or ends an active one.
func putRun(ctx context.Context, tx *sql.Tx, r record.Run) error {
	was, err := runState(ctx, tx, r.ID)
	if errors.Is(err, ErrNotFound) {
		return insertRun(ctx, tx, r)
	}
	if err != nil {
		return err
	}
	if was != record.RunActive && was != r.State {
		return &StateError{What: "run", ID: r.ID, From: string(was), To: string(r.State)}
	}
	_, err = tx.ExecContext(ctx, `UPDATE run SET state = $2, class = $3, reason = $4, start_us = $5, end_us = $6
		WHERE id = $1`, r.ID, string(r.State), string(r.Class), r.Reason, r.StartUs, r.EndUs)
	return runError(r, err)
}

func insertRun(ctx context.Context, tx *sql.Tx, r record.Run) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO run
		(id, slot_id, attempt, launch_id, host, state, class, reason, start_us, end_us, ord)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, (SELECT COALESCE(MAX(ord), 0) + 1 FROM run))`,
		r.ID, r.SlotID, r.Attempt, r.LaunchID, r.Host, string(r.State), string(r.Class), r.Reason, r.StartUs, r.EndUs)
	return runError(r, err)
}

func runError(r record.Run, err error) error {
	if isUnique(err) {
		return fmt.Errorf("run %s (attempt %d, %s) in slot %s: %w", r.ID, r.Attempt, r.State, r.SlotID, ErrSlotFilled)
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	return nil
}

func setSweepState(ctx context.Context, tx *sql.Tx, id string, state record.SweepState, atUs int64) error {
	ended := atUs
	if state == record.SweepActive {
		ended = 0
	}
	res, err := tx.ExecContext(ctx, `UPDATE sweep SET state = $2, ended_us = $3 WHERE id = $1`, id, string(state), ended)
	if err != nil {
		return fmt.Errorf("sweep %s: %w", id, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(&NotFoundError{What: "sweep", ID: id}, err)
	}
	return nil
}

func insertEvent(ctx context.Context, tx *sql.Tx, e record.Event) error {
	var run any
	if e.RunID != "" {
		run = e.RunID
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO event
		(launch_id, seq, run_id, at_us, host_at_us, step, kind, evidence, ord)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, (SELECT COALESCE(MAX(ord), 0) + 1 FROM event))`,
		e.LaunchID, e.Seq, run, e.AtUs, e.HostAtUs, e.Step, string(e.Kind), text(e.Evidence))
	if isUnique(err) {
		return ErrEventRecorded
	}
	return err
}
