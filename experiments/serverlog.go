package experiments

import (
	"context"
	"fmt"
	"io"
	"time"

	"specrun/deploy/server"
)

const logPoll = 250 * time.Millisecond // between two looks at a log that is followed

// CopyLog writes a launch's server log from its beginning to w. With follow it
// goes on with what the server prints until that has ended or ctx ends, which is
// no error then.
func CopyLog(ctx context.Context, h RemoteHost, stateDir, launch string, follow bool, w io.Writer) error {
	st, err := server.Look(ctx, h, stateDir, launch)
	if err != nil {
		return err
	}
	if st.LogPath == "" {
		return fmt.Errorf("%s: the server of launch %s is somebody else's, and has no log that can be read", h.Name(), launch)
	}
	if st.Phase == server.Absent {
		return fmt.Errorf("%s: launch %s has no server, so no log", h.Name(), launch)
	}
	if st.In != nil {
		inner, err := server.Enter(ctx, h, *st.In)
		if err == nil {
			defer inner.Close()
			return copyLog(ctx, inner, st.In.StateDir, st, follow, w)
		}
		if !containerGone(err) { // else what was kept of it is on the host
			return err
		}
	}
	return copyLog(ctx, h, stateDir, st, follow, w)
}

// copyLog is CopyLog where the log is.
func copyLog(ctx context.Context, h RemoteHost, stateDir string, st server.State, follow bool, w io.Writer) error {
	launch := st.Launch
	buf := make([]byte, 256<<10)
	for at := st.LogFrom; ; {
		ended := st.Phase != server.Running // known before the read: nothing comes after it
		n, size, err := h.ReadAt(ctx, st.LogPath, buf, at)
		if err == nil && n == 0 && size < at {
			at = 0 // it was cut: what comes now is new
			continue
		}
		if err == nil && n > 0 {
			_, err = w.Write(buf[:n])
			at += int64(n)
		}
		switch {
		case follow && ctx.Err() != nil:
			return nil
		case follow && containerGone(err): // with all that it had not said yet
			return nil
		case err != nil:
			return fmt.Errorf("log of launch %s: %w", launch, err)
		case n > 0:
			continue
		case !follow || ended:
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(logPoll):
		}
		if st, err = server.Look(ctx, h, stateDir, launch); err != nil && ctx.Err() == nil {
			if containerGone(err) {
				return nil
			}
			return err
		}
	}
}
