package store

import (
	"compress/gzip"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"

	"specrun/experiments/record"
)

// Kept files are compressed: logs are most of them. A store of an earlier version
// has some that are not, and they stay so.
const packed = ".gz"

// artifactDir lies beside the results file and is named relative to it in the
// table, so that both can be moved together.
const artifactDir = "artifacts"

// Attach keeps the content of r compressed under artifacts/<sha256>.gz, the hash
// being that of the content, and lists it
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
		a.LaunchID, run, a.Name, artifactDir+"/"+filepath.Base(s.kept(a.SHA256)), a.SHA256, a.Bytes)
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
	z, err := gzip.NewWriterLevel(tmp, gzip.BestSpeed)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.MultiWriter(z, h), contextReader{ctx, r})
	if err == nil {
		err = z.Close()
	}
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
	path := filepath.Join(dir, sum+packed)
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	renamed = true
	a.Path, a.SHA256, a.Bytes = path, sum, n
	return syncDir(dir)
}

// kept is where the content with this hash lies, or would.
func (s *Store) kept(sha string) string {
	path := filepath.Join(filepath.Dir(s.path), artifactDir, sha)
	if _, err := os.Stat(path); err == nil {
		return path // of an earlier version
	}
	return path + packed
}

// Kept opens a kept file by the hash of its content, and says how many bytes
// that has. ErrNotFound when it is not listed.
func (s *Store) Kept(ctx context.Context, sha string) (io.ReadCloser, int64, error) {
	var n int64
	err := s.read(ctx, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, `SELECT bytes FROM artifact WHERE sha256 = $1 LIMIT 1`, sha).Scan(&n)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = &NotFoundError{What: "kept file", ID: sha}
	}
	if err != nil {
		return nil, 0, fmt.Errorf("kept file %s: %w", sha, err)
	}
	r, err := Content(record.Artifact{Name: sha, SHA256: sha, Path: s.kept(sha)})
	return r, n, err
}

// Content opens a kept file, unpacked. Reading to its end fails with *HashError
// when it is not what was kept.
func Content(a record.Artifact) (io.ReadCloser, error) {
	f, err := os.Open(a.Path)
	if err != nil {
		return nil, err
	}
	c := &content{Reader: f, file: f, a: a, sum: sha256.New()}
	if strings.HasSuffix(a.Path, packed) {
		if c.Reader, err = gzip.NewReader(f); err != nil {
			return nil, errors.Join(fmt.Errorf("kept file %s: %w", a.Path, err), f.Close())
		}
	}
	return c, nil
}

type content struct {
	io.Reader
	file *os.File
	a    record.Artifact
	sum  hash.Hash
}

func (c *content) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.sum.Write(p[:n])
	if err == io.EOF {
		if got := hex.EncodeToString(c.sum.Sum(nil)); c.a.SHA256 != "" && got != c.a.SHA256 {
			return n, &HashError{Name: c.a.Name, Want: c.a.SHA256, Got: got}
		}
	}
	return n, err
}

func (c *content) Close() error { return c.file.Close() }

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
