package detach

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// Results is what a process packs from: package store has them.
type Results interface {
	// Snapshot writes a copy as of one moment to a path where nothing is.
	Snapshot(ctx context.Context, path string) error
	// Kept opens a kept file by its hash, and says how many bytes it has.
	Kept(ctx context.Context, sha string) (io.ReadCloser, int64, error)
}

// forgotten is when a packed file that nobody fetched is removed.
const forgotten = time.Hour

var hash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Pack makes a compressed file of the results of a folder, or of the kept files
// whose hashes it reads from want, one a line, when there are any. It runs on the
// host, also while the process of the sweep records. It returns the file's path.
func Pack(ctx context.Context, dir string, r Results, want io.Reader) (path string, err error) {
	var hashes []string
	for lines := bufio.NewScanner(want); lines.Scan(); {
		if sha := strings.TrimSpace(lines.Text()); hash.MatchString(sha) {
			hashes = append(hashes, sha)
		} else if sha != "" {
			return "", fmt.Errorf("%q is no hash", sha)
		}
	}
	folder := filepath.Join(dir, fetchFolder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return "", err
	}
	removeForgotten(folder)
	out, err := os.CreateTemp(folder, "pack-*.gz")
	if err != nil {
		return "", err
	}
	defer func() {
		err = errors.Join(err, out.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	zip, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err != nil {
		return "", err
	}
	if len(hashes) > 0 {
		err = packFiles(ctx, zip, r, hashes)
	} else {
		err = packResults(ctx, zip, r, folder)
	}
	return out.Name(), errors.Join(err, zip.Close())
}

// removeForgotten removes what nobody fetched. One that another fetch has just
// removed is none.
func removeForgotten(folder string) {
	files, _ := filepath.Glob(filepath.Join(folder, "*"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && time.Since(info.ModTime()) > forgotten {
			_ = os.RemoveAll(f) // what stays is tried again by the next fetch
		}
	}
}

func packResults(ctx context.Context, w io.Writer, r Results, folder string) (err error) {
	private, err := os.MkdirTemp(folder, "copy-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(private)) }()
	path := filepath.Join(private, ResultsFile)
	if err := r.Snapshot(ctx, path); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, f)
	return errors.Join(err, f.Close())
}

func packFiles(ctx context.Context, w io.Writer, r Results, hashes []string) error {
	t := tar.NewWriter(w)
	for _, sha := range hashes {
		if err := packFile(ctx, t, r, sha); err != nil {
			return err
		}
	}
	return t.Close()
}

func packFile(ctx context.Context, t *tar.Writer, r Results, sha string) error {
	f, size, err := r.Kept(ctx, sha)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := t.WriteHeader(&tar.Header{Name: sha, Mode: 0o600, Size: size, Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err = io.Copy(t, f)
	return err
}
