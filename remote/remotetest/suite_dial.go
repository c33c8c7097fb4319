package remotetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"specrun/remote"
)

func dial(t *testing.T, h *remote.Host) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err == nil {
			io.Copy(c, c)
			c.Close()
		}
	}()
	c, err := h.DialContext(t.Context(), "tcp", l.Addr().String())
	check(t, err)
	defer c.Close()
	io.WriteString(c, "ping")
	p := make([]byte, 4)
	if _, err := io.ReadFull(c, p); err != nil || string(p) != "ping" {
		t.Errorf("got %q, %v", p, err)
	}
}

func dialRefused(t *testing.T, h *remote.Host) {
	// Bound and not listening: nobody else gets the port meanwhile.
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	check(t, err)
	defer syscall.Close(fd)
	check(t, syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := syscall.Getsockname(fd)
	check(t, err)
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	if c, err := h.DialContext(t.Context(), "tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v, %v", c, err)
	}
}
