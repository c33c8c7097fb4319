package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"specrun/experiments/record"
)

// artifactDir lies beside the results file and is named relative to it in the
// table, so that both can be moved together.
const artifactDir = "artifacts"

// Attach keeps the content of r as a file under artifacts/<sha256> and lists it
// under a.Name for the launch, or the run when a.RunID is set. It returns a with
// Path, SHA256 and Bytes filled in. With a.SHA256 given, other content is
// refused with *HashError. Attaching the same content again changes nothing;
// other content under the same name takes its place in the list. Content is
// read to its end before the store is locked, and files are never deleted.
func (s *Store) Attach(ctx context.Context, a record.Artifact, r io.Reader) (record.Artifact, error) {
	if err := s.keep(ctx, &a, r); err != nil {
		return a, fmt.Errorf("keep %s of launch %s: %w", a.Name, a.LaunchID, s.classify(err))
	}
	err := s.write(ctx, func(tx *sql.Tx) error { return s.putArtifact(ctx, tx, a) })
	if err != nil {
		return a, fmt.Errorf("list %s of launch %s: %w", a.Name, a.LaunchID, err)
	}
	return a, nil
}

func (s *Store) putArtifact(ctx context.Context, tx *sql.Tx, a record.Artifact) error {
	var run any
	if a.RunID != "" {
		run = a.RunID
	}
	_, err := tx.ExecContext(ctx, `DELETE FROM artifact
		WHERE launch_id = $1 AND COALESCE(run_id, '') = $2 AND name = $3`, a.LaunchID, a.RunID, a.Name)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO artifact (launch_id, run_id, name, path, sha256, bytes, ord)
		VALUES ($1, $2, $3, $4, $5, $6, (SELECT COALESCE(MAX(ord), 0) + 1 FROM artifact))`,
		a.LaunchID, run, a.Name, artifactDir+"/"+a.SHA256, a.SHA256, a.Bytes)
	return err
}

// keep writes r under its own hash: into a temporary file first, renamed when
// it is whole and on disk. It sets Path, SHA256 and Bytes of a.
func (s *Store) keep(ctx context.Context, a *record.Artifact, r io.Reader) (err error) {
	dir := filepath.Join(filepath.Dir(s.path), artifactDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".incoming-")
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed {
			_ = tmp.Close() // closed already when the rename failed
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(tmp, h), contextReader{ctx, r})
	if err != nil {
		return err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	if a.SHA256 != "" && a.SHA256 != sum {
		return &HashError{Name: a.Name, Want: a.SHA256, Got: sum}
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	path := filepath.Join(dir, sum)
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	renamed = true
	a.Path, a.SHA256, a.Bytes = path, sum, n
	return syncDir(dir)
}

// syncDir makes a rename in dir survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// contextReader ends a long copy when its context does. It lives no longer
// than that one call.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}
