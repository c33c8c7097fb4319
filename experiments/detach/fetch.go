package detach

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"time"

	"specrun/remote"
)

// packLimit is how long a host may take to copy and compress what it has.
const packLimit = 10 * time.Minute

// Fetch copies the results of a sweep, as of one moment, into a new file here.
func Fetch(ctx context.Context, h Host, dir, to string) error {
	return fetch(ctx, h, dir, nil, func(r io.Reader) error {
		f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, r)
		return errors.Join(err, f.Close())
	})
}

// FetchFiles copies kept files by their hashes; keep is called for each and
// compares it with its hash.
func FetchFiles(ctx context.Context, h Host, dir string, hashes []string, keep func(sha string, r io.Reader) error) error {
	if len(hashes) == 0 {
		return nil
	}
	return fetch(ctx, h, dir, hashes, func(r io.Reader) error {
		files := tar.NewReader(r)
		for {
			head, err := files.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if err := keep(head.Name, files); err != nil {
				return err
			}
		}
	})
}

// fetch has the host pack a file, brings it here, and reads it. The file here is
// whole and verified before its first byte is used.
func fetch(ctx context.Context, h Host, dir string, want []string, read func(io.Reader) error) (err error) {
	s := script("fetch", fetchText, remote.Var{Name: "DIR", Value: dir}, remote.Var{Name: "WANT", Value: strings.Join(want, "\n")})
	s.Timeout = packLimit
	res, err := h.Run(ctx, s)
	if err != nil {
		return fmt.Errorf("fetch the results in %s: %w", dir, err)
	}
	packed := answer(res.Stdout)["file"]
	if !path.IsAbs(packed) {
		return fmt.Errorf("%s: fetch the results in %s: unexpected answer %q", h.Name(), dir, res.Stdout)
	}
	here, err := os.CreateTemp("", "specrun-fetch-*.gz")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, here.Close(), os.Remove(here.Name())) }()
	_, _, err = h.Get(ctx, packed, here)
	// What stays there when this fails goes with the folder, or with the next
	// fetch an hour from now.
	_, _ = h.Run(ctx, script("drop", dropText, remote.Var{Name: "FILE", Value: packed}))
	if err != nil {
		return fmt.Errorf("fetch the results in %s: %w", dir, err)
	}
	if _, err := here.Seek(0, io.SeekStart); err != nil {
		return err
	}
	zip, err := gzip.NewReader(here)
	if err == nil {
		err = read(zip)
	}
	if err != nil {
		return fmt.Errorf("read what %s packed: %w", h.Name(), err)
	}
	return nil
}
