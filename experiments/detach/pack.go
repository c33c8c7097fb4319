package detach

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// Results is what a process packs from: package store has them.
type Results interface {
	// Copy writes a copy as of one moment. It takes no room on the disk.
	Copy(ctx context.Context, w io.Writer) error
	// Kept opens a kept file by its hash, and says how many bytes it has. Reading
	// to its end fails when the content is not what was kept.
	Kept(ctx context.Context, sha string) (io.ReadCloser, int64, error)
}

// lostPrefix stands before the hash of a file that cannot be read; why not is in
// place of its content.
const lostPrefix = "lost/"

var hash = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Pack writes the results, compressed, or the kept files whose hashes it reads from
// want, one a line, when there are any. It runs on the host, also while the process
// of the sweep records, and writes nothing to the disk.
func Pack(ctx context.Context, w io.Writer, r Results, want io.Reader) error {
	var hashes []string
	lines := bufio.NewScanner(want)
	for lines.Scan() {
		if sha := strings.TrimSpace(lines.Text()); hash.MatchString(sha) {
			hashes = append(hashes, sha)
		} else if sha != "" {
			return fmt.Errorf("%q is no hash", sha)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read what is wanted: %w", err)
	}
	zip, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if len(hashes) > 0 {
		err = packFiles(ctx, zip, r, hashes)
	} else {
		err = r.Copy(ctx, zip)
	}
	return errors.Join(err, zip.Close())
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

// packFile reads a file to its end before it packs it: what has begun cannot be
// taken back, and one that is damaged must not hold up the others.
func packFile(ctx context.Context, t *tar.Writer, r Results, sha string) error {
	size, err := readWhole(ctx, r, sha)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		why := err.Error()
		if err := t.WriteHeader(&tar.Header{Name: lostPrefix + sha, Mode: 0o600, Size: int64(len(why)), Format: tar.FormatPAX}); err != nil {
			return err
		}
		_, err := io.WriteString(t, why)
		return err
	}
	f, _, err := r.Kept(ctx, sha)
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

func readWhole(ctx context.Context, r Results, sha string) (size int64, err error) {
	f, _, err := r.Kept(ctx, sha)
	if err != nil {
		return 0, err
	}
	size, err = io.Copy(io.Discard, f)
	return size, errors.Join(err, f.Close())
}
