package server

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"specrun/remote"
)

// PortHolder says who listens on a TCP port of the host, nil when nobody does.
func PortHolder(ctx context.Context, h Host, port int) (*Holder, error) {
	res, err := h.Run(ctx, script("port", portsText,
		remote.Var{Name: "PORT", Value: strconv.Itoa(port)},
	))
	if err != nil {
		return nil, fmt.Errorf("look at port %d: %w", port, err)
	}
	for _, f := range remote.Lines(res.Stdout) {
		if f.Key == "listener" {
			holder, err := parseHolder(port, f.Value)
			return &holder, err
		}
	}
	return nil, nil
}

// parseHolder reads "address inode uid user pid command".
func parseHolder(port int, s string) (Holder, error) {
	f := strings.SplitN(s, " ", 6)
	if len(f) != 6 {
		return Holder{}, fmt.Errorf("listener %q: want six fields", s)
	}
	uid, err := strconv.Atoi(f[2])
	if err != nil {
		return Holder{}, fmt.Errorf("listener %q: %w", s, err)
	}
	pid, err := strconv.Atoi(f[4])
	if err != nil {
		return Holder{}, fmt.Errorf("listener %q: %w", s, err)
	}
	addr, err := procAddr(f[0])
	if err != nil {
		return Holder{}, fmt.Errorf("listener %q: %w", s, err)
	}
	return Holder{Port: port, Address: addr.String(), Socket: f[1], UID: uid, User: f[3], PID: pid, Command: strings.TrimSpace(f[5])}, nil
}

// procAddr reads an address of /proc/net/tcp or tcp6: 32-bit words in hex, each
// in the byte order of the machine. specrun's hosts are little endian.
func procAddr(s string) (netip.Addr, error) {
	raw, err := hex.DecodeString(s)
	if err != nil {
		return netip.Addr{}, err
	}
	for w := 0; w+4 <= len(raw); w += 4 {
		raw[w], raw[w+1], raw[w+2], raw[w+3] = raw[w+3], raw[w+2], raw[w+1], raw[w]
	}
	addr, ok := netip.AddrFromSlice(raw)
	if !ok {
		return netip.Addr{}, fmt.Errorf("address %q", s)
	}
	return addr.Unmap(), nil
}

// parseGPU reads "uuid pid MiB user command", or without the user
// "pid uuid MiB command", as nvidia-smi orders it.
func parseGPU(s string, withUser bool) (GPUHolder, error) {
	n := 4
	if withUser {
		n = 5
	}
	f := strings.SplitN(s, " ", n)
	if len(f) != n {
		return GPUHolder{}, fmt.Errorf("gpu process %q: want %d fields", s, n)
	}
	g := GPUHolder{MiB: f[2], Command: f[n-1]}
	pid := f[0]
	if withUser {
		g.GPU, pid, g.User = f[0], f[1], f[3]
	} else {
		g.GPU = f[1]
	}
	var err error
	if g.PID, err = strconv.Atoi(pid); err != nil {
		return GPUHolder{}, fmt.Errorf("gpu process %q: %w", s, err)
	}
	return g, nil
}
