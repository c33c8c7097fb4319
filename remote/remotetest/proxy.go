package remotetest

import (
	"io"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"specrun/remote"
)

// Proxy is a bad network in front of one TCP address. Its settings act on
// connections that are open, too. It ends with the test.
type Proxy struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup

	delay  atomic.Int64 // nanoseconds, each way
	mute   atomic.Bool
	budget atomic.Int64 // bytes to the server until the cut; negative: no cut
	hangUp atomic.Int64 // connections to close before their first byte

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
	total  atomic.Int64 // bytes to the server so far
	back   atomic.Int64 // bytes from the server so far
	dials  atomic.Int64
}

// StartProxy starts a proxy on 127.0.0.1 in front of target.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	p := &Proxy{target: target, listener: l, conns: map[net.Conn]bool{}}
	p.budget.Store(-1)
	p.work.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Addr is where it listens.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Delay holds every byte back for d in each direction: a round trip takes 2d
// longer. (A TCP connect is answered here, so it takes no longer.)
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// Mute swallows all bytes of both directions, as a dead switch does, or stops
// doing so.
func (p *Proxy) Mute(on bool) { p.mute.Store(on) }

// CutAfter ends all connections when n more bytes have gone to the server.
func (p *Proxy) CutAfter(n int64) { p.budget.Store(n) }

// Cut ends all connections now.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

// HangUp closes the next n connections before their first byte.
func (p *Proxy) HangUp(n int) { p.hangUp.Store(int64(n)) }

// Sent is the number of bytes that went to the server.
func (p *Proxy) Sent() int64 { return p.total.Load() }

// Received is the number of bytes that came from the server.
func (p *Proxy) Received() int64 { return p.back.Load() }

// Dials is the number of connections made to the proxy.
func (p *Proxy) Dials() int64 { return p.dials.Load() }

// Through makes a config go through the proxy. The host key stays under the
// server's own address.
func (p *Proxy) Through(c remote.Config) remote.Config {
	host, port, _ := net.SplitHostPort(p.Addr())
	number, _ := strconv.Atoi(port) // a listener's own address
	if c.HostKeyAlias == "" {
		c.HostKeyAlias = c.Address
		if c.Port != 22 {
			c.HostKeyAlias = "[" + c.Address + "]:" + strconv.Itoa(c.Port)
		}
	}
	c.Address, c.Port = host, number
	return c
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.listener.Close()
	p.Cut()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.dials.Add(1)
		if p.hangUp.Add(-1) >= 0 {
			c.Close()
			continue
		}
		p.hangUp.Store(0)
		to, err := net.Dial("tcp", p.target)
		if err != nil {
			c.Close()
			continue
		}
		p.mu.Lock()
		p.conns[c], p.conns[to] = true, true
		closed := p.closed
		p.mu.Unlock()
		p.pipe(to, c, true)
		p.pipe(c, to, false)
		if closed {
			p.Cut()
		}
	}
}

// parcel is what was read at a time, to be written a delay later.
type parcel struct {
	data []byte
	at   time.Time
}

func (p *Proxy) pipe(dst, src net.Conn, toServer bool) {
	queue := make(chan parcel, 1024)
	p.work.Go(func() {
		defer close(queue)
		for {
			buf := make([]byte, 64<<10)
			n, err := src.Read(buf)
			if n > 0 && !p.mute.Load() {
				queue <- parcel{buf[:n], time.Now()}
			}
			if err != nil {
				return
			}
		}
	})
	p.work.Go(func() {
		defer func() {
			dst.Close()
			src.Close()
			p.mu.Lock()
			delete(p.conns, dst)
			p.mu.Unlock()
			for range queue { // the reader must not hang
			}
		}()
		for q := range queue {
			time.Sleep(time.Until(q.at.Add(time.Duration(p.delay.Load()))))
			if toServer && !p.spend(dst, &q) {
				return
			}
			if !toServer {
				p.back.Add(int64(len(q.data)))
			}
			if _, err := dst.Write(q.data); err != nil {
				return
			}
		}
	})
}

// spend counts bytes to the server; at the end of the budget it writes what is
// left of it and returns false.
func (p *Proxy) spend(dst io.Writer, q *parcel) bool {
	p.total.Add(int64(len(q.data)))
	if p.budget.Load() < 0 {
		return true
	}
	left := p.budget.Add(-int64(len(q.data)))
	if left > 0 {
		return true
	}
	dst.Write(q.data[:int64(len(q.data))+left])
	p.budget.Store(-1)
	p.Cut()
	return false
}
