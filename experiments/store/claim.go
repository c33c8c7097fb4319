package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"specrun/experiments/record"
)

// Forever is an expiry of a claim that never comes: its holder is asked, not the
// clock, whether it still works on the sweep.
const Forever = math.MaxInt64

// Claim makes controller the one that works on the sweep until expiresUs
// (microseconds UTC, by this machine's clock); the same controller extends its
// claim by calling again before that. It fails with *ClaimedError while another
// controller's claim has not expired. An expiresUs that has passed, 0 for
// example, gives the claim up.
func (s *Store) Claim(ctx context.Context, sweepID, controller string, expiresUs int64) error {
	if controller == "" {
		return errors.New("claim without the name of a controller")
	}
	return s.write(ctx, func(tx *sql.Tx) error {
		var holder string
		var until int64
		err := tx.QueryRowContext(ctx, `SELECT controller, expires_us FROM claim WHERE sweep_id = $1`, sweepID).
			Scan(&holder, &until)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("claim sweep %s: %w", sweepID, err)
		}
		now := s.now().UnixMicro()
		if err == nil && holder != controller && until > now {
			return &ClaimedError{SweepID: sweepID, Controller: holder, ExpiresUs: until}
		}
		var exists int
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM sweep WHERE id = $1`, sweepID).Scan(&exists); err != nil {
			return fmt.Errorf("claim sweep %s: %w", sweepID, err)
		}
		if exists == 0 {
			return &NotFoundError{What: "sweep", ID: sweepID}
		}
		if expiresUs <= now {
			_, err = tx.ExecContext(ctx, `DELETE FROM claim WHERE sweep_id = $1`, sweepID)
		} else {
			_, err = tx.ExecContext(ctx, `INSERT INTO claim (sweep_id, controller, expires_us) VALUES ($1, $2, $3)
				ON CONFLICT (sweep_id) DO UPDATE SET controller = excluded.controller, expires_us = excluded.expires_us`,
				sweepID, controller, expiresUs)
		}
		if err != nil {
			return fmt.Errorf("claim sweep %s: %w", sweepID, err)
		}
		return nil
	})
}

// Cut makes an active sweep of which no launch was ever begun interrupted, at atUs
// (microseconds UTC). Any other stays as it is: its journal says how it stands.
func (s *Store) Cut(ctx context.Context, sweepID string, atUs int64) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		var exists int
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM sweep WHERE id = $1`, sweepID).Scan(&exists); err != nil {
			return fmt.Errorf("cut sweep %s: %w", sweepID, err)
		}
		if exists == 0 {
			return &NotFoundError{What: "sweep", ID: sweepID}
		}
		_, err := tx.ExecContext(ctx, `UPDATE sweep SET state = $2, ended_us = $3
			WHERE id = $1 AND state = $4 AND NOT EXISTS (SELECT 1 FROM launch WHERE launch.sweep_id = sweep.id)`,
			sweepID, string(record.SweepInterrupted), atUs, string(record.SweepActive))
		if err != nil {
			return fmt.Errorf("cut sweep %s: %w", sweepID, err)
		}
		return nil
	})
}

// Holder names who has the claim on a sweep, also when it has expired; "" when
// nobody has.
func (s *Store) Holder(ctx context.Context, sweepID string) (controller string, expiresUs int64, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT controller, expires_us FROM claim WHERE sweep_id = $1`, sweepID).Scan(&controller, &expiresUs)
	if errors.Is(err, sql.ErrNoRows) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("who works on sweep %s: %w", sweepID, err)
	}
	return controller, expiresUs, nil
}

// HeldForever gives the holders of claims that only their holder ends, by sweep.
func (s *Store) HeldForever(ctx context.Context) (map[string]string, error) {
	held := map[string]string{}
	err := s.read(ctx, func(tx *sql.Tx) error {
		return each(ctx, tx, func(rows *sql.Rows) error {
			var id, controller string
			err := rows.Scan(&id, &controller)
			held[id] = controller
			return err
		}, `SELECT sweep_id, controller FROM claim WHERE expires_us = $1`, int64(Forever))
	})
	if err != nil {
		return nil, fmt.Errorf("list claims: %w", err)
	}
	return held, nil
}
