package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"specrun/experiments/record"
)

// Export writes a sweep alone into a new store at path, so that somebody else
// can go on with it. Kept files stay where they are, and are not listed there.
func (s *Store) Export(ctx context.Context, sweepID, path string) (err error) {
	to, err := Open(ctx, path, WithClock(s.now))
	if err != nil {
		return err
	}
	// Closing takes what SQLite keeps beside the file into it.
	defer func() { err = errors.Join(err, to.Close()) }()
	m := merge{to: to, from: s, sweepID: sweepID}
	if err = m.read(ctx, false); err == nil {
		err = m.write(ctx)
	}
	if err != nil {
		return fmt.Errorf("export sweep %s: %w", sweepID, err)
	}
	return nil
}

// Missing lists the hashes of a sweep's kept files that another store names and
// this one does not have.
func (s *Store) Missing(ctx context.Context, from *Store, sweepID string) ([]string, error) {
	var all []record.Artifact
	err := from.read(ctx, func(tx *sql.Tx) (err error) {
		all, err = collect(ctx, tx, from.scanArtifact, selectArtifact+` WHERE launch_id IN (SELECT id FROM launch WHERE sweep_id = $1)`, sweepID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("kept files of sweep %s: %w", sweepID, err)
	}
	return s.lacking(all), nil
}

func (s *Store) lacking(all []record.Artifact) []string {
	missing := map[string]bool{}
	for _, a := range all {
		if _, err := os.Stat(s.kept(a.SHA256)); err != nil {
			missing[a.SHA256] = true
		}
	}
	return slices.Sorted(maps.Keys(missing))
}

// Keep keeps a file by its hash, for a list that Merge brings later. Other
// content is *HashError. It is on disk when Keep returns.
func (s *Store) Keep(ctx context.Context, sha string, r io.Reader) error {
	a := record.Artifact{Name: sha, SHA256: sha}
	if err := s.keep(ctx, &a, r); err != nil {
		return fmt.Errorf("keep %s: %w", sha, s.classify(err))
	}
	return nil
}

// Copy writes a copy of the store, as of one moment, also while another process
// writes to the store. It takes no room on the disk, and as much memory as the
// file has bytes.
func (s *Store) Copy(ctx context.Context, w io.Writer) error {
	whole, err := s.serialize(ctx)
	if err == nil {
		_, err = w.Write(whole)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", s.path, err)
	}
	return nil
}

func (s *Store) serialize(ctx context.Context) (whole []byte, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	err = conn.Raw(func(driver any) (err error) {
		whole, err = driver.(interface{ Serialize() ([]byte, error) }).Serialize()
		if err == nil && len(whole) == 0 {
			err = errors.New("not enough memory for it")
		}
		return err
	})
	return whole, errors.Join(err, conn.Close())
}
