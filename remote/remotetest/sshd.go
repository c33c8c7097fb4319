package remotetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/remote"
)

// Options of a real sshd. The zero value is a plain one.
type Options struct {
	Dir         string            // "" is a temporary folder of the test
	MaxSessions int               // 0 is sshd's default
	MaxStartups string            // "" is 1000: no throttling
	NoSFTP      bool              // no sftp subsystem
	SFTP        string            // another subsystem command than internal-sftp
	Env         map[string]string // of every session, through SetEnv; HOME is an empty folder unless given
	KeyTypes    []string          // of the host: ed25519, ecdsa, rsa; nil is ed25519
	// AuthorizedKeys are lines beside that of the client's own key, options
	// such as command="..." included. OnlyThese leaves the client's key out.
	AuthorizedKeys []string
	OnlyThese      bool
	Config         []string // further lines of sshd_config
	// UID runs sshd as this user (and group), who needs no entry in
	// /etc/passwd: it gets one, with shell Shell and home folder <Dir>/home, in
	// a private mount namespace. 0 is the user of the test. Needs root.
	UID   int
	Shell string // of the private entry, "" is /bin/sh
}

// SSHD is a running OpenSSH server on 127.0.0.1. It ends with the test.
type SSHD struct {
	Dir        string
	Home       string // HOME of its sessions
	User       string
	Address    string
	Port       int
	ClientKey  string // private key file
	KnownHosts string // file with all its host keys
	log        string
	pid        int
	t          testing.TB
}

// StartSSHD starts a real sshd. A missing prerequisite fails the test.
func StartSSHD(t testing.TB, o Options) *SSHD {
	t.Helper()
	s := &SSHD{Dir: o.Dir, Address: "127.0.0.1", t: t}
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	s.log = filepath.Join(s.Dir, "sshd.log")
	s.ClientKey = filepath.Join(s.Dir, "id")
	s.KnownHosts = filepath.Join(s.Dir, "known_hosts")
	s.Home = o.Env["HOME"]
	if s.Home == "" {
		s.Home = filepath.Join(s.Dir, "home")
	}
	check(t, os.MkdirAll(s.Home, 0o755))
	check(t, os.MkdirAll("/run/sshd", 0o755)) // hard-coded in sshd
	s.User = currentUser(t)
	if o.UID != 0 {
		s.User = "specrun" + strconv.Itoa(o.UID)
	}
	s.writeKeys(o)

	// The port is taken by whoever comes first after we let go of it: try again.
	var err error
	for range 5 {
		if err = s.start(o); err == nil {
			t.Cleanup(s.Close)
			return s
		}
	}
	log, _ := os.ReadFile(s.log)
	t.Fatalf("start sshd: %v\n%s", err, log)
	return nil
}

func currentUser(t testing.TB) string {
	u, err := user.Current()
	check(t, err)
	return u.Username
}

func (s *SSHD) writeKeys(o Options) {
	keygen := func(kind, file string) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		run(s.t, "ssh-keygen", "-q", "-t", kind, "-N", "", "-C", "specrun-test", "-f", file)
	}
	keygen("ed25519", s.ClientKey)
	for _, kind := range o.keyTypes() {
		keygen(kind, s.hostKey(kind))
	}
	own, err := os.ReadFile(s.ClientKey + ".pub")
	check(s.t, err)
	lines := append([]string{}, o.AuthorizedKeys...)
	if !o.OnlyThese {
		lines = append(lines, string(own))
	}
	check(s.t, os.WriteFile(s.Dir+"/authorized_keys", []byte(strings.Join(lines, "\n")+"\n"), 0o644))
}

func (o Options) keyTypes() []string {
	if len(o.KeyTypes) == 0 {
		return []string{"ed25519"}
	}
	return o.KeyTypes
}

func (s *SSHD) hostKey(kind string) string { return filepath.Join(s.Dir, "host_"+kind) }

func (s *SSHD) start(o Options) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.Port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	config := filepath.Join(s.Dir, "sshd_config")
	if err := os.WriteFile(config, []byte(s.config(o)), 0o644); err != nil {
		return err
	}
	if err := s.writeKnownHosts(o); err != nil {
		return err
	}
	sshd := fmt.Sprintf("/usr/sbin/sshd -D -f %s -E %s", config, s.log)
	cmd := exec.Command("/bin/sh", "-c", "exec "+sshd)
	if o.UID != 0 {
		if cmd, err = s.asUser(o, sshd); err != nil {
			return err
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { cmd.Wait(); close(ended) }()
	if err := s.waitBanner(ended); err != nil {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
		return fmt.Errorf("%w: %s", err, output.String())
	}
	s.pid = cmd.Process.Pid
	s.t.Cleanup(func() { <-ended })
	return nil
}

// asUser makes the command for an sshd of another user: a private mount
// namespace with that user in its /etc/passwd, and the sshd in it without root.
func (s *SSHD) asUser(o Options, sshd string) (*exec.Cmd, error) {
	shell := o.Shell
	if shell == "" {
		shell = "/bin/sh"
	}
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return nil, err
	}
	group, err := os.ReadFile("/etc/group")
	if err != nil {
		return nil, err
	}
	passwd = fmt.Appendf(passwd, "%s:x:%d:%d::%s:%s\n", s.User, o.UID, o.UID, s.Home, shell)
	group = fmt.Appendf(group, "%s:x:%d:\n", s.User, o.UID)
	// Without an entry in shadow an account counts as locked.
	shadow := fmt.Appendf(nil, "%s:*:19000:0:99999:7:::\n", s.User)
	files := map[string][]byte{"passwd": passwd, "group": group, "shadow": shadow}
	script := "set -e\n"
	for _, name := range []string{"passwd", "group", "shadow"} {
		file := filepath.Join(s.Dir, name)
		if err := os.WriteFile(file, files[name], 0o644); err != nil {
			return nil, err
		}
		script += fmt.Sprintf("mount --bind %s /etc/%s\n", file, name)
	}
	// The server must read its keys, and its sessions their home folder.
	owned := []string{s.Home, s.log}
	for _, kind := range o.keyTypes() {
		owned = append(owned, s.hostKey(kind))
	}
	if f, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY, 0o644); err == nil {
		f.Close()
	}
	for _, f := range owned {
		if err := os.Chown(f, o.UID, o.UID); err != nil {
			return nil, fmt.Errorf("give %s to user %d (needs root): %w", f, o.UID, err)
		}
	}
	for dir := s.Dir; dir != "/" && dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			return nil, err
		}
	}
	script += fmt.Sprintf("exec setpriv --reuid=%d --regid=%d --clear-groups %s\n", o.UID, o.UID, sshd)
	return exec.Command("unshare", "-m", "--propagation", "private", "/bin/sh", "-c", script), nil
}

func (s *SSHD) config(o Options) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("Port %d", s.Port)
	line("ListenAddress 127.0.0.1")
	for _, kind := range o.keyTypes() {
		line("HostKey %s", s.hostKey(kind))
	}
	line("PidFile none")
	line("AuthorizedKeysFile %s/authorized_keys", s.Dir)
	line("StrictModes no") // test folders lie under /tmp
	line("UsePAM no")
	line("UseDNS no")
	line("PasswordAuthentication no")
	line("KbdInteractiveAuthentication no")
	line("PermitRootLogin prohibit-password")
	line("LogLevel VERBOSE")
	startups := o.MaxStartups
	if startups == "" {
		startups = "1000"
	}
	line("MaxStartups %s", startups)
	if o.MaxSessions > 0 {
		line("MaxSessions %d", o.MaxSessions)
	}
	switch {
	case o.SFTP != "":
		line("Subsystem sftp %s", o.SFTP)
	case !o.NoSFTP:
		line("Subsystem sftp internal-sftp")
	}
	// sshd takes one SetEnv line.
	env := "SetEnv HOME=" + s.Home
	for name, value := range o.Env {
		if name != "HOME" {
			env += fmt.Sprintf(" %s=%q", name, value)
		}
	}
	line("%s", env)
	for _, l := range o.Config {
		line("%s", l)
	}
	return b.String()
}

func (s *SSHD) writeKnownHosts(o Options) error {
	var b bytes.Buffer
	for _, kind := range o.keyTypes() {
		line, err := s.KnownHostsLine(kind)
		if err != nil {
			return err
		}
		b.WriteString(line)
	}
	return os.WriteFile(s.KnownHosts, b.Bytes(), 0o600)
}

// KnownHostsLine is the line for one of its host keys.
func (s *SSHD) KnownHostsLine(kind string) (string, error) {
	pub, err := os.ReadFile(s.hostKey(kind) + ".pub")
	if err != nil {
		return "", err
	}
	words := strings.Fields(string(pub))
	return fmt.Sprintf("[%s]:%d %s %s\n", s.Address, s.Port, words[0], words[1]), nil
}

func (s *SSHD) waitBanner(ended <-chan struct{}) error {
	limit := time.Now().Add(10 * time.Second)
	for time.Now().Before(limit) {
		select {
		case <-ended:
			return errors.New("it ended")
		default:
		}
		c, err := net.DialTimeout("tcp", s.HostPort(), time.Second)
		if err == nil {
			c.SetDeadline(time.Now().Add(time.Second))
			head := make([]byte, 4)
			_, err = c.Read(head)
			c.Close()
			if err == nil && string(head) == "SSH-" {
				return nil
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
	return errors.New("no banner")
}

// HostPort is its address.
func (s *SSHD) HostPort() string { return net.JoinHostPort(s.Address, strconv.Itoa(s.Port)) }

// Config is the way to it.
func (s *SSHD) Config() remote.Config {
	return remote.Config{Name: "sshd", Address: s.Address, Port: s.Port, User: s.User,
		IdentityFiles: []string{s.ClientKey}, KnownHosts: []string{s.KnownHosts}}
}

// Dial connects to it; change changes the config first. The connection ends
// with the test.
func (s *SSHD) Dial(t testing.TB, change ...func(*remote.Config)) *remote.Host {
	t.Helper()
	c := s.Config()
	for _, f := range change {
		f(&c)
	}
	h, err := remote.Dial(context.Background(), c)
	if err != nil {
		log, _ := os.ReadFile(s.log)
		t.Fatalf("dial: %v\n%s", err, log)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// Log is what sshd has logged so far.
func (s *SSHD) Log() string {
	text, err := os.ReadFile(s.log)
	check(s.t, err)
	return string(text)
}

// CutConnections kills the per-connection processes: every client sees its
// connection end. Commands that run in a session go on, as they would.
func (s *SSHD) CutConnections() {
	for _, pid := range children(s.pid) {
		// Under root each connection has a privileged monitor and its worker.
		for _, worker := range children(pid) {
			if isSSHD(worker) {
				syscall.Kill(worker, syscall.SIGKILL)
			}
		}
		syscall.Kill(pid, syscall.SIGKILL)
	}
}

// Close ends the listener and its connections.
func (s *SSHD) Close() {
	s.CutConnections()
	syscall.Kill(s.pid, syscall.SIGKILL)
}

func children(pid int) []int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	var pids []int
	for _, f := range tasks {
		text, err := os.ReadFile(f)
		if err != nil {
			continue // ended meanwhile
		}
		for _, w := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(w); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}

func isSSHD(pid int) bool {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return err == nil && strings.HasPrefix(string(comm), "sshd")
}

func run(t testing.TB, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
