package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"specrun/experiments/record"
)

// Extend adds cells and slots to a sweep that was begun: what is to be measured
// only once results are known. The slots of the cells closed that have no result
// count no more; slots that are added again do. It is one transaction and
// idempotent: what is there already, with the same content, is left as it is. Ids
// of closed that the sweep does not have are none. ErrExists means that
// an id or a place is taken by something else, ErrNotFound that there is no such
// sweep; nothing is changed then.
func (s *Store) Extend(ctx context.Context, sweepID string, cells []record.Cell, slots []record.Slot, closed ...string) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		if _, err := one(ctx, tx, scanSweep, selectSweep+` WHERE id = $1`, sweepID); err != nil {
			if errors.Is(err, ErrNotFound) {
				return &NotFoundError{What: "sweep", ID: sweepID}
			}
			return err
		}
		for _, c := range cells {
			if c.SweepID != sweepID {
				return fmt.Errorf("cell %s is of sweep %q", c.ID, c.SweepID)
			}
			if err := extendCell(ctx, tx, c); err != nil {
				return fmt.Errorf("cell %s: %w", c.ID, err)
			}
		}
		var next int
		err := tx.QueryRowContext(ctx, `SELECT COALESCE(MAX(slot.ord), -1) + 1 FROM slot JOIN cell ON cell.id = slot.cell_id
			WHERE cell.sweep_id = $1`, sweepID).Scan(&next)
		if err != nil {
			return err
		}
		for _, sl := range slots {
			added, err := extendSlot(ctx, tx, sweepID, sl, next)
			if err != nil {
				return fmt.Errorf("slot %s: %w", sl.ID, err)
			}
			if added {
				next++
			}
		}
		for _, cell := range closed {
			_, err := tx.ExecContext(ctx, `UPDATE slot SET closed = 1 WHERE cell_id = (SELECT id FROM cell WHERE id = $1 AND sweep_id = $2)
				AND NOT EXISTS (SELECT 1 FROM run WHERE run.slot_id = slot.id AND run.state IN ($3, $4))`,
				cell, sweepID, string(record.RunDone), string(record.RunFailed))
			if err != nil {
				return fmt.Errorf("close cell %s: %w", cell, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("extend sweep %s: %w", sweepID, err)
	}
	return nil
}

func extendCell(ctx context.Context, tx *sql.Tx, c record.Cell) error {
	found, err := collect(ctx, tx, scanCell, selectCell+` WHERE id = $1`, c.ID)
	if err != nil {
		return err
	}
	if len(found) > 0 {
		was := found[0]
		if was.SweepID != c.SweepID || was.Ord != c.Ord || was.Key != c.Key {
			return ErrExists
		}
		return nil
	}
	if err := insertCell(ctx, tx, c); err != nil {
		if isUnique(err) {
			return ErrExists
		}
		return err
	}
	return nil
}

func extendSlot(ctx context.Context, tx *sql.Tx, sweepID string, sl record.Slot, ord int) (added bool, err error) {
	found, err := collect(ctx, tx, scanSlot, selectSlot+` WHERE id = $1`, sl.ID)
	if err != nil {
		return false, err
	}
	if len(found) > 0 {
		was := found[0]
		if was.CellID != sl.CellID || was.Round != sl.Round || was.Repeat != sl.Repeat {
			return false, ErrExists
		}
		_, err := tx.ExecContext(ctx, `UPDATE slot SET closed = 0 WHERE id = $1`, sl.ID)
		return false, err
	}
	var of int
	if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM cell WHERE id = $1 AND sweep_id = $2`, sl.CellID, sweepID).Scan(&of); err != nil {
		return false, err
	}
	if of == 0 {
		return false, &NotFoundError{What: "cell", ID: sl.CellID}
	}
	if err := insertSlot(ctx, tx, sl, ord); err != nil {
		if isUnique(err) {
			return false, ErrExists
		}
		return false, err
	}
	return true, nil
}
