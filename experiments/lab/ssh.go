package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"specrun/remote/loopback"
)

// sshServer is what is left to do with the server once it runs.
type sshServer interface{ Close() error }

// startSSH starts the SSH server and fills in how to reach it. Its keys are
// kept in the folder, and so is its port: whoever reached it the last time
// reaches it now, unless another program has taken the port meanwhile. It
// outlives ctx, since what a cancelled sweep undoes it undoes over SSH.
func startSSH(ctx context.Context, l layout, port int, env map[string]string, h *Host) (sshServer, error) {
	kept := filepath.Join(l.ssh(), "port")
	asked := port != 0
	if !asked {
		if text, err := os.ReadFile(kept); err == nil {
			if port, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
				return nil, fmt.Errorf("practice host: %s: %w", kept, err)
			}
		}
	}
	o := loopback.Options{Dir: l.ssh(), Cwd: l.home(), Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	for k, v := range env {
		o.Env = append(o.Env, k+"="+v)
	}
	s, err := loopback.Start(context.WithoutCancel(ctx), o)
	if errors.Is(err, syscall.EADDRINUSE) && !asked {
		o.Addr = "127.0.0.1:0"
		s, err = loopback.Start(context.WithoutCancel(ctx), o)
	}
	if err != nil {
		return nil, fmt.Errorf("practice host: %w", err)
	}
	_, number, err := net.SplitHostPort(s.Addr())
	if err == nil {
		h.Port, err = strconv.Atoi(number)
	}
	if err == nil {
		err = os.WriteFile(kept, []byte(number+"\n"), 0o600)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("practice host: %w", err), s.Close())
	}
	h.User = loopback.User
	h.IdentityFile, h.KnownHosts = s.ClientKeyPath(), s.KnownHostsPath()
	return s, nil
}
