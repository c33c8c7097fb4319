package server

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"specrun/remote"
)

// ErrGone says that a process known by identity no longer lives.
var ErrGone = errors.New("process is gone")

// Environ reads the environment of the process that id names: what the server
// really got. Processes that rewrite their title may have overwritten it; then
// what is left of it is returned. ErrGone when the process has ended.
func Environ(ctx context.Context, h Host, id Identity) (map[string]string, error) {
	raw, err := readProc(ctx, h, id, "environ")
	if err != nil {
		return nil, err
	}
	return parseEnviron(raw), nil
}

// Argv reads the argument vector of the process that id names.
func Argv(ctx context.Context, h Host, id Identity) ([]string, error) {
	raw, err := readProc(ctx, h, id, "cmdline")
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00"), nil
}

func readProc(ctx context.Context, h Host, id Identity, part string) ([]byte, error) {
	res, err := h.Run(ctx, script("process", processText,
		remote.Var{Name: "PID", Value: strconv.Itoa(id.PID)},
		remote.Var{Name: "TICKS", Value: strconv.FormatUint(id.StartTicks, 10)},
		remote.Var{Name: "BOOT", Value: id.BootID},
		remote.Var{Name: "PART", Value: part},
	))
	var exit *remote.ExitError
	if errors.As(err, &exit) && exit.Code == 3 {
		return nil, fmt.Errorf("%s: read %s of pid %d: %w", h.Name(), part, id.PID, ErrGone)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s of pid %d: %w", part, id.PID, err)
	}
	return res.Stdout, nil
}

// parseEnviron splits NUL-separated assignments; a later one wins, and what is
// none is left out.
func parseEnviron(raw []byte) map[string]string {
	env := make(map[string]string)
	for entry := range strings.SplitSeq(string(raw), "\x00") {
		if name, value, ok := strings.Cut(entry, "="); ok && name != "" {
			env[name] = value
		}
	}
	return env
}
