package experiments

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/bench"
	"specrun/patches"
	"specrun/remote"
)

// RemoteHost is what an execution needs of a connection; *remote.Host is one.
type RemoteHost interface {
	Name() string
	Run(ctx context.Context, s remote.Script) (remote.Result, error)
	Put(ctx context.Context, f remote.File) error
	PutVerified(ctx context.Context, f remote.File) (sha string, err error)
	Get(ctx context.Context, path string, w io.Writer) (n int64, sha256 string, err error)
	ReadAt(ctx context.Context, path string, p []byte, off int64) (n int, size int64, err error)
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	Close() error
}

// ConnectOptions is what the parts behind a Host need beside the connection.
type ConnectOptions struct {
	StateDir string                                    // on the host; "" is the default there
	Worker   bench.Finder                              // names the benchmark client's binary
	Patches  func(name string) (*patches.Patch, error) // as Options.Patches resolved them
	Library  func() ([]*patches.Patch, error)          // whose targets are looked at
	Grace    time.Duration                             // between SIGTERM and SIGKILL of a server; 0 = the default
}

// Connect makes a Host of a connection, which it closes with itself.
func Connect(h RemoteHost, o ConnectOptions) *Host {
	client := &http.Client{Transport: &http.Transport{DialContext: h.DialContext, DisableKeepAlives: true}, Timeout: 2 * time.Minute}
	servers := remoteServer{h: h, o: o, client: client}
	host := &Host{
		Name:    h.Name(),
		Leases:  remoteLeases{h, o.StateDir},
		Patcher: &remotePatcher{h: h, o: o, seen: map[string]PatchState{}},
		Server:  servers,
		Bench:   newBenches(h, servers, o.Worker),
		Prober:  newProber(h),
		Foreign: remoteForeign{h, o.StateDir},
		Close:   h.Close,
	}
	host.Containers = remoteContainers{h: h, o: o, outer: host}
	return host
}

// RefOf is how a plan names a patch.
func RefOf(p *patches.Patch) PatchRef {
	return PatchRef{Name: p.Name, Version: p.Version, SHA256: p.SHA256(), Probe: string(p.Probe), Prints: len(p.Emits.Rows) > 0, Env: p.Env}
}

type remoteLeases struct {
	h     RemoteHost
	state string
}

func (l remoteLeases) Acquire(ctx context.Context, q server.LeaseRequest) (server.Grant, error) {
	return server.Acquire(ctx, l.h, l.state, q)
}

func (l remoteLeases) Last(ctx context.Context, names []string, owner server.Owner, ttl time.Duration) (*server.Lease, error) {
	return server.LastHolder(ctx, l.h, l.state, names, owner, ttl)
}

func (l remoteLeases) Met(ctx context.Context, port int) ([]string, error) {
	return server.Met(ctx, l.h, l.state, port)
}

func (l remoteLeases) Refresh(ctx context.Context, names []string, owner server.Owner, ttl time.Duration) error {
	return server.RefreshLease(ctx, l.h, l.state, names, owner, ttl)
}

func (l remoteLeases) Leave(ctx context.Context, names []string, owner server.Owner) error {
	return server.LeaveLease(ctx, l.h, l.state, names, owner)
}

func (l remoteLeases) Release(ctx context.Context, names []string, owner server.Owner) error {
	return server.ReleaseLease(ctx, l.h, l.state, names, owner)
}

func (l remoteLeases) Reclaim(ctx context.Context, names []string, owner server.Owner) error {
	return server.ReclaimLease(ctx, l.h, l.state, names, owner)
}

type remoteServer struct {
	h      RemoteHost
	o      ConnectOptions
	client *http.Client
}

func (s remoteServer) Marks(ctx context.Context) ([]server.Mark, error) {
	return server.Marks(ctx, s.h, s.o.StateDir)
}

func (s remoteServer) Start(ctx context.Context, l server.Launch) (server.Identity, error) {
	l.StateDir = s.o.StateDir
	return server.Start(ctx, s.h, l)
}

func (s remoteServer) Look(ctx context.Context, launch string) (server.State, error) {
	return server.Look(ctx, s.h, s.o.StateDir, launch)
}

func (s remoteServer) LookClosely(ctx context.Context, launch string, port int, used bool) (server.State, error) {
	return server.LookClosely(ctx, s.h, s.o.StateDir, launch, port, used)
}

func (s remoteServer) Autopsy(ctx context.Context, launch string) (server.Death, error) {
	return server.Autopsy(ctx, s.h, s.o.StateDir, launch)
}

func (s remoteServer) WaitReady(ctx context.Context, st server.State, port int, r server.Readiness, o server.ReadyOptions) (server.Ready, error) {
	return server.WaitReady(ctx, s.h, st, port, r, o)
}

func (s remoteServer) Stop(ctx context.Context, launch string) (server.Proof, error) {
	return server.Stop(ctx, s.h, s.o.StateDir, launch, server.StopOptions{Grace: s.o.Grace, Release: true})
}

func (s remoteServer) Environ(ctx context.Context, id server.Identity) (map[string]string, error) {
	return server.Environ(ctx, s.h, id)
}

func (s remoteServer) ReadAt(ctx context.Context, path string, p []byte, off int64) (int, int64, error) {
	return s.h.ReadAt(ctx, path, p, off)
}

func (s remoteServer) Client() *http.Client { return s.client }
