package detach

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"specrun/remote"
)

// A transfer may take long over a slow line. One of which nothing comes any more
// is given up earlier.
const (
	fetchLimit = time.Hour
	idleLimit  = 2 * time.Minute
)

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
// compares it with its hash. Those that the host cannot read any more, since they
// were removed or damaged there, are no error: lost says why, by hash.
func FetchFiles(ctx context.Context, h Host, dir string, hashes []string, keep func(sha string, r io.Reader) error) (lost map[string]string, err error) {
	if len(hashes) == 0 {
		return nil, nil
	}
	lost = map[string]string{}
	err = fetch(ctx, h, dir, hashes, func(r io.Reader) error {
		files := tar.NewReader(r)
		for {
			head, err := files.Next()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if sha, is := strings.CutPrefix(head.Name, lostPrefix); is {
				why, err := io.ReadAll(files)
				if err != nil {
					return err
				}
				lost[sha] = string(why)
				continue
			}
			if err := keep(head.Name, files); err != nil {
				return err
			}
		}
	})
	return lost, err
}

// fetch has the host pack what is wanted and reads it. It is packed on its way:
// the disk there may be full. All of it is here before its first byte is used.
func fetch(ctx context.Context, h Host, dir string, want []string, read func(io.Reader) error) (err error) {
	here, err := os.CreateTemp("", "specrun-fetch-*.gz")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, here.Close(), os.Remove(here.Name())) }()
	s := script("fetch", fetchText, remote.Var{Name: "DIR", Value: dir}, remote.Var{Name: "WANT", Value: strings.Join(want, "\n")})
	s.Timeout = fetchLimit
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	idle := time.AfterFunc(idleLimit, func() { stop(fmt.Errorf("nothing came for %v", idleLimit)) })
	defer idle.Stop()
	_, err = h.Stream(ctx, s, writerFunc(func(p []byte) (int, error) {
		idle.Reset(idleLimit)
		return here.Write(p)
	}))
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
	if err == nil {
		_, err = io.Copy(io.Discard, zip) // its checksum stands at the end
	}
	if err != nil {
		return fmt.Errorf("read what %s packed: %w", h.Name(), err)
	}
	return nil
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
