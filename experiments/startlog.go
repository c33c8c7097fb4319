package experiments

import (
	"context"
	"fmt"
)

// startLogMost bounds how much of a start's log is read at once.
const startLogMost = 8 << 20

// startLog reads what the server wrote until it was ready, for what it prints of
// its configuration.
func (a *attempt) startLog(ctx context.Context) ([]byte, error) {
	if a.cfg.Attach != nil {
		return nil, nil // its log may begin with that of another one
	}
	size := min(a.ready.LogOffset, startLogMost)
	if size <= 0 {
		size = startLogMost
	}
	var out []byte
	buf := make([]byte, 256<<10)
	for int64(len(out)) < size {
		n, _, err := a.x.host.Server.ReadAt(ctx, a.state.LogPath, buf[:min(int64(len(buf)), size-int64(len(out)))], int64(len(out)))
		if err != nil {
			return nil, fmt.Errorf("read the log of launch %s: %w", a.rec.ID, err)
		}
		if n == 0 {
			break
		}
		out = append(out, buf[:n]...)
	}
	return out, nil
}
