package detach

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"specrun/experiments/bench"
	"specrun/remote"
)

// beginLimit is how long a process may take until it has its folder.
const beginLimit = 15 * time.Second

// room is what must be free on the host's disk beside what is sent: results and
// logs.
const room = 64 << 20

// Push brings specrun itself to the host, once by its hash, and returns its path
// there. *NoBuildError when find has none for the host.
func Push(ctx context.Context, h bench.Host, stateDir string, find bench.Finder) (string, error) {
	worker, err := bench.EnsureWorker(ctx, h, stateDir, find)
	var missing *bench.NoWorkerError
	if errors.As(err, &missing) {
		return "", &NoBuildError{Host: h.Name(), OS: missing.OS, Arch: missing.Arch, Tried: missing.Tried}
	}
	return worker, err
}

// Place is where a sweep is brought to on a host.
type Place struct {
	Dir   string // the sweep's folder, absolute
	State State  // how it stands there
	Free  int64  // bytes on that disk, -1 unknown

	stage string
}

// Prepare makes a place for a sweep. Nothing is to be seen of it until Start;
// Discard gives it up. *OthersError when only another user can make one.
func Prepare(ctx context.Context, h Host, stateDir, sweepID string) (Place, error) {
	res, err := h.Run(ctx, script("prepare", prepareText, remote.Var{Name: "STATE", Value: stateDir}, remote.Var{Name: "ID", Value: sweepID}))
	if err != nil {
		return Place{}, fmt.Errorf("make a place for the sweep: %w", err)
	}
	a := answer(res.Stdout)
	if owner, ok := a["others"]; ok {
		return Place{}, &OthersError{Host: h.Name(), Dir: a["dir"], Owner: owner}
	}
	p := Place{Dir: a["dir"], stage: a["stage"], Free: -1}
	if p.State, err = parseState(a["is"]); err != nil || !path.IsAbs(p.Dir) || !path.IsAbs(p.stage) {
		return Place{}, fmt.Errorf("%s: make a place for the sweep: unexpected answer %q", h.Name(), res.Stdout)
	}
	if kib, err := strconv.ParseInt(a["free"], 10, 64); err == nil {
		p.Free = kib << 10
	}
	return p, nil
}

// Discard removes what Prepare made, when there is no Start.
func Discard(ctx context.Context, h Host, p Place) error {
	_, err := h.Run(ctx, script("discard", `main() { rm -rf "$STAGE"; }`+"\n", remote.Var{Name: "STAGE", Value: p.stage}))
	return err
}

// Send brings a job to its place, and the results to go on from: results is a
// file here, "" when those on the host are the newest. *NoRoomError when the
// disk there is too full.
func Send(ctx context.Context, h Host, p Place, j Job, results string) error {
	j.Schema = jobSchema
	text, err := json.Marshal(j)
	if err != nil {
		return fmt.Errorf("job of sweep %s: %w", j.SweepID, err)
	}
	need := int64(len(text)) + room
	var size int64
	if results != "" {
		info, err := os.Stat(results)
		if err != nil {
			return err
		}
		size = info.Size()
		need += 2 * size
	}
	if p.Free >= 0 && p.Free < need {
		return &NoRoomError{Host: h.Name(), Dir: path.Dir(p.Dir), Free: p.Free, Need: need}
	}
	if results != "" {
		err := put(ctx, h, p.stage+"/"+ResultsFile, size, func() (io.ReadCloser, error) { return os.Open(results) })
		if err != nil {
			return err
		}
	}
	err = put(ctx, h, p.stage+"/store", int64(len(j.Store)+1), func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(j.Store + "\n")), nil })
	if err != nil {
		return err
	}
	return put(ctx, h, p.stage+"/"+jobFile, int64(len(text)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil })
}

func put(ctx context.Context, h Host, to string, size int64, open func() (io.ReadCloser, error)) error {
	if _, err := h.PutVerified(ctx, remote.File{Path: to, Mode: 0o600, Size: size, Open: open, Sync: true}); err != nil {
		return fmt.Errorf("send %s: %w", path.Base(to), err)
	}
	return nil
}

// Start starts the process of a sweep in its place and returns once it has the
// sweep. Secrets travel on its standard input and are written nowhere. A process
// that runs already is left alone. A lost connection leaves it open whether it
// started: call it again. *RefusedError when the host did not start it.
func Start(ctx context.Context, h Host, p Place, worker string, secrets map[string]string) error {
	if secrets == nil {
		secrets = map[string]string{}
	}
	text, err := json.Marshal(secrets)
	if err != nil {
		return err
	}
	s := script("start", startText,
		remote.Var{Name: "DIR", Value: p.Dir},
		remote.Var{Name: "STAGE", Value: p.stage},
		remote.Var{Name: "WORKER", Value: worker},
		remote.Var{Name: "BEGIN", Value: strconv.Itoa(int(beginLimit / (10 * time.Millisecond)))})
	s.Payload = text
	res, err := h.Run(ctx, s)
	if err != nil {
		return fmt.Errorf("start the sweep: %w", err)
	}
	first, rest, _ := strings.Cut(string(res.Stdout), "\n")
	if reason, ok := strings.CutPrefix(first, "refused "); ok {
		return &RefusedError{Host: h.Name(), Dir: p.Dir, Reason: reason, Log: rest}
	}
	// It may have ended by now.
	if _, err := parseState(strings.TrimPrefix(first, "is ")); err != nil {
		return fmt.Errorf("%s: start the sweep: unexpected answer %q", h.Name(), res.Stdout)
	}
	return nil
}

// Secrets reads what Start sent, on the host.
func Secrets(stdin io.Reader) (map[string]string, error) {
	values := map[string]string{}
	// To the end: a cut connection looks like one, and then this is no JSON.
	text, err := io.ReadAll(stdin)
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	if err != nil {
		return nil, fmt.Errorf("secrets on standard input: %w", err)
	}
	return values, nil
}
