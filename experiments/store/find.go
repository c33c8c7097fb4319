package store

import (
	"context"
	"database/sql"
	"fmt"
)

// SweepID gives the whole id of the sweep whose id begins with idOrPrefix. It
// fails with ErrNotFound or *AmbiguousError.
func (s *Store) SweepID(ctx context.Context, idOrPrefix string) (string, error) {
	return s.find(ctx, "sweep", idOrPrefix)
}

// RunID gives the whole id of the run whose id begins with idOrPrefix. It
// fails with ErrNotFound or *AmbiguousError.
func (s *Store) RunID(ctx context.Context, idOrPrefix string) (string, error) {
	return s.find(ctx, "run", idOrPrefix)
}

// LatestSweep gives the id of the sweep begun last, of any of the kinds, or of
// any kind when none is named. It fails with ErrNotFound when there is none.
func (s *Store) LatestSweep(ctx context.Context, kinds ...string) (string, error) {
	rows, err := s.ListSweeps(ctx, SweepFilter{Kinds: kinds, Limit: 1})
	if err != nil {
		return "", err
	}
	if len(rows) == 0 {
		return "", &NotFoundError{What: "sweep"}
	}
	return rows[0].Sweep.ID, nil
}

func (s *Store) find(ctx context.Context, table, idOrPrefix string) (id string, err error) {
	err = s.read(ctx, func(tx *sql.Tx) error {
		id, err = resolve(ctx, tx, table, idOrPrefix)
		return err
	})
	return id, err
}

// ambiguityShown is how many of the ids that fit an error lists.
const ambiguityShown = 5

// resolve completes a prefix of an id. A whole id wins over longer ones that
// begin with it. The table's name is one of ours.
func resolve(ctx context.Context, tx *sql.Tx, table, prefix string) (string, error) {
	if prefix == "" {
		return "", &NotFoundError{What: table}
	}
	ids, err := collect(ctx, tx, func(rows *sql.Rows) (id string, err error) { return id, rows.Scan(&id) },
		`SELECT id FROM `+table+` WHERE SUBSTR(id, 1, LENGTH($1)) = $1 ORDER BY LENGTH(id), id LIMIT $2`,
		prefix, ambiguityShown)
	switch {
	case err != nil:
		return "", fmt.Errorf("find %s %q: %w", table, prefix, err)
	case len(ids) == 0:
		return "", &NotFoundError{What: table, ID: prefix}
	case len(ids) == 1 || ids[0] == prefix:
		return ids[0], nil
	}
	return "", &AmbiguousError{What: table, Prefix: prefix, IDs: ids}
}
