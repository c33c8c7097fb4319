package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// ID names this store for others: it stays the same whatever becomes of the
// file's path and of the machine's name. fresh makes one for a store that has
// none yet. A copy of the file has the id of the original.
func (s *Store) ID(ctx context.Context, fresh func() string) (string, error) {
	id, err := metaID(ctx, s.db)
	if errors.Is(err, sql.ErrNoRows) {
		err = s.write(ctx, func(tx *sql.Tx) error {
			// Another process may have been quicker.
			if _, err := tx.ExecContext(ctx, `INSERT INTO meta (name, value) VALUES ('id', $1) ON CONFLICT (name) DO NOTHING`, fresh()); err != nil {
				return err
			}
			id, err = metaID(ctx, tx)
			return err
		})
	}
	if err != nil {
		return "", fmt.Errorf("id of store %s: %w", s.path, err)
	}
	return id, nil
}

func metaID(ctx context.Context, q interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}) (id string, err error) {
	err = q.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'id'`).Scan(&id)
	return id, err
}
