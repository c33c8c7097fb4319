package store

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// Each file is one schema version, applied in one transaction.
//
//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the file to the newest schema that this program knows.
func (s *Store) migrate(ctx context.Context) error {
	dir, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, s.db, dir,
		goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		return err
	}
	// Two processes may open a new file at the same moment. Their migrations
	// are transactions, so that one wins and the other fails on what is there
	// already; what counts is the version afterwards. Each failure of that kind
	// means the other got one step further: creating goose's table, then each
	// migration.
	tries := 2 + len(p.ListSources())
	for {
		have, known, err := p.GetVersions(ctx)
		if err == nil && have > known {
			return &SchemaError{Path: s.path, Have: have, Known: known}
		}
		if err == nil && have == known {
			return nil
		}
		if err == nil && s.refuse != nil {
			return fmt.Errorf("bring the schema from %d to %d: %w", have, known, s.refuse)
		}
		if err == nil {
			_, err = p.Up(ctx)
		}
		tries--
		if err != nil && (tries == 0 || ctx.Err() != nil) {
			return fmt.Errorf("bring the schema up to date: %w", err)
		}
	}
}
