package loopback

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"

	"specrun/remote"
)

// User is the only user name it knows.
const User = "lab"

// Options of a server.
type Options struct {
	Dir  string   // keeps the host key and the client key; made when missing
	Env  []string // environment of commands, nil is PATH and HOME=Dir
	Cwd  string   // their working directory, "" is Dir
	Addr string   // "" is 127.0.0.1:0; must be a loopback address

	Limits Limits
}

// Limits make it a worse server, as some real ones are.
type Limits struct {
	MaxSessions  int    // at once on a connection, 0 is no limit
	NoSFTP       bool   // refuse the subsystem
	Noise        string // printed before each command and into SFTP, as by an rc file
	MuteChannels bool   // never answer the opening of a channel
	SFTPRead     int    // most bytes of one SFTP read, 0 is no limit
}

// Server is a running server. It is safe for concurrent use.
type Server struct {
	o         Options
	listener  net.Listener
	hostKey   ssh.Signer
	clientKey ssh.PublicKey
	config    *ssh.ServerConfig
	work      sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]bool
	groups map[int]bool // process groups of running commands
}

// Start starts a server. It runs until Close or the end of ctx.
func Start(ctx context.Context, o Options) (*Server, error) {
	if o.Dir == "" {
		return nil, errors.New("loopback server: no folder for its keys")
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("loopback server: %w", err)
	}
	if o.Env == nil {
		o.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + o.Dir}
	}
	if o.Cwd == "" {
		o.Cwd = o.Dir
	}
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	s := &Server{o: o, conns: map[net.Conn]bool{}, groups: map[int]bool{}}
	var err error
	if s.hostKey, err = loadKey(s.path("host_key")); err != nil {
		return nil, err
	}
	client, err := loadKey(s.ClientKeyPath())
	if err != nil {
		return nil, err
	}
	s.clientKey = client.PublicKey()
	s.config = &ssh.ServerConfig{PublicKeyCallback: s.login}
	s.config.AddHostKey(s.hostKey)
	if s.listener, err = net.Listen("tcp", o.Addr); err != nil {
		return nil, fmt.Errorf("loopback server: %w", err)
	}
	if !loopbackAddr(s.listener.Addr().String()) {
		s.listener.Close()
		return nil, fmt.Errorf("loopback server: %s is no loopback address", o.Addr)
	}
	if err := os.WriteFile(s.KnownHostsPath(), []byte(s.HostKeyLine()), 0o600); err != nil {
		s.listener.Close()
		return nil, fmt.Errorf("loopback server: %w", err)
	}
	s.work.Go(s.accept)
	context.AfterFunc(ctx, func() { s.Close() })
	return s, nil
}

func (s *Server) path(name string) string { return filepath.Join(s.o.Dir, name) }

// Addr is where it listens, "127.0.0.1:PORT".
func (s *Server) Addr() string { return s.listener.Addr().String() }

// HostKeyLine is its host key as a line of known_hosts, with its newline.
func (s *Server) HostKeyLine() string {
	return knownhosts.Line([]string{s.Addr()}, s.hostKey.PublicKey()) + "\n"
}

// KnownHostsPath is a file that holds HostKeyLine.
func (s *Server) KnownHostsPath() string { return s.path("known_hosts") }

// ClientKeyPath is the private key, in PEM, that it accepts.
func (s *Server) ClientKeyPath() string { return s.path("client_key") }

// Config is the way to it under a name.
func (s *Server) Config(name string) remote.Config {
	host, port, _ := net.SplitHostPort(s.Addr())
	number, _ := strconv.Atoi(port) // a listener's own address
	return remote.Config{Name: name, Address: host, Port: number, User: User,
		IdentityFiles: []string{s.ClientKeyPath()}, KnownHosts: []string{s.KnownHostsPath()}}
}

// Close stops listening, ends all connections, and kills the process groups of
// commands that still run. What a command detached into its own session lives
// on. It waits for its goroutines.
func (s *Server) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	var err error
	if first {
		err = s.listener.Close()
		for c := range s.conns {
			c.Close()
		}
		for pgid := range s.groups {
			killGroup(pgid, "KILL")
		}
	}
	s.mu.Unlock()
	s.work.Wait()
	return err
}

// CutConnections ends all connections as a broken network would. Commands go on.
func (s *Server) CutConnections() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

func (s *Server) login(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	if meta.User() != User || string(key.Marshal()) != string(s.clientKey.Marshal()) {
		return nil, fmt.Errorf("%s with %s is not allowed", meta.User(), ssh.FingerprintSHA256(key))
	}
	return &ssh.Permissions{}, nil
}

func (s *Server) accept() {
	for {
		c, err := s.listener.Accept()
		if err != nil {
			return // closed
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			c.Close()
			return
		}
		s.conns[c] = true
		s.work.Go(func() { s.serve(c) })
		s.mu.Unlock()
	}
}

func (s *Server) serve(c net.Conn) {
	defer func() {
		c.Close()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	conn, channels, requests, err := ssh.NewServerConn(c, s.config)
	if err != nil {
		return // a client that is not ours, or left
	}
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() { ssh.DiscardRequests(requests) }) // refuses keepalives, which answers them
	var mu sync.Mutex
	sessions := 0
	for n := range channels {
		switch {
		case s.o.Limits.MuteChannels:
		case n.ChannelType() == "direct-tcpip":
			work.Go(func() { s.forward(n) })
		case n.ChannelType() != "session":
			n.Reject(ssh.UnknownChannelType, "unknown channel type")
		default:
			mu.Lock()
			over := s.o.Limits.MaxSessions > 0 && sessions >= s.o.Limits.MaxSessions
			if !over {
				sessions++
			}
			mu.Unlock()
			if over {
				n.Reject(ssh.ConnectionFailed, "open failed")
				continue
			}
			work.Go(func() {
				s.session(n)
				mu.Lock()
				sessions--
				mu.Unlock()
			})
		}
	}
	conn.Wait()
}

func loopbackAddr(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return err == nil && (ip != nil && ip.IsLoopback() || host == "localhost")
}
