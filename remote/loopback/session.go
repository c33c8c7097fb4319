package loopback

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
)

// session serves one session channel: one command, or SFTP.
func (s *Server) session(n ssh.NewChannel) {
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	env := s.o.Env
	for r := range requests {
		switch r.Type {
		case "env":
			var m struct{ Name, Value string }
			ok := ssh.Unmarshal(r.Payload, &m) == nil && (m.Name == "LANG" || strings.HasPrefix(m.Name, "LC_"))
			if ok {
				env = append(env[:len(env):len(env)], m.Name+"="+m.Value)
			}
			reply(r, ok)
		case "exec":
			var m struct{ Command string }
			if ssh.Unmarshal(r.Payload, &m) != nil {
				reply(r, false)
				return
			}
			s.exec(ch, requests, r, m.Command, env)
			return
		case "subsystem":
			var m struct{ Name string }
			ok := ssh.Unmarshal(r.Payload, &m) == nil && m.Name == "sftp" && !s.o.Limits.NoSFTP
			reply(r, ok)
			if ok {
				go ssh.DiscardRequests(requests)
				io.WriteString(ch, s.o.Limits.Noise)
				serveSFTP(ch, s.o.Cwd, s.o.Limits.SFTPRead)
				return
			}
		default: // no terminals, no shells
			reply(r, false)
		}
	}
}

func reply(r *ssh.Request, ok bool) {
	if r.WantReply {
		r.Reply(ok, nil) // fails only with the connection
	}
}

// exec runs one command line, as sshd does: its session is its own, the client
// learns how it ended at once, and the channel closes when nobody holds its
// output any more. When the connection is lost the command goes on without its
// pipes.
func (s *Server) exec(ch ssh.Channel, requests <-chan *ssh.Request, r *ssh.Request, line string, env []string) {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Env, cmd.Dir = env, s.o.Cwd
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdin, stdout, stderr, err := startOnPipes(cmd)
	if err != nil {
		reply(r, false)
		return
	}
	pid := cmd.Process.Pid
	s.mu.Lock()
	s.groups[pid] = true
	if s.closed {
		killGroup(pid, "KILL")
	}
	s.mu.Unlock()
	reply(r, true)
	io.WriteString(ch, s.o.Limits.Noise)

	var output sync.WaitGroup
	output.Go(func() { io.Copy(ch, stdout) })
	output.Go(func() { io.Copy(ch.Stderr(), stderr) })
	go func() { // ends with the channel
		io.Copy(stdin, ch)
		stdin.Close()
	}()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for r := range requests {
			var m struct{ Name string }
			ok := r.Type == "signal" && ssh.Unmarshal(r.Payload, &m) == nil && s.running(pid) && killGroup(pid, m.Name)
			reply(r, ok)
		}
	}()
	ended := make(chan struct{})
	go func() {
		err := cmd.Wait()
		s.mu.Lock()
		delete(s.groups, pid) // from here on the number may be another's
		s.mu.Unlock()
		sendStatus(ch, err)
		close(ended)
	}()
	drained := make(chan struct{})
	go func() { output.Wait(); close(drained) }()
	select {
	case <-drained:
		<-ended
	case <-gone:
	}
	stdin.Close()
	stdout.Close()
	stderr.Close()
}

func (s *Server) running(pid int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.groups[pid]
}

func sendStatus(ch ssh.Channel, err error) {
	var exit *exec.ExitError
	code := 0
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			ch.SendRequest("exit-signal", false, ssh.Marshal(struct {
				Signal     string
				CoreDumped bool
				Message    string
				Lang       string
			}{signalName(ws.Signal()), false, "", ""}))
			return
		}
		code = exit.ExitCode()
	}
	ch.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
}

// startOnPipes starts a command on plain pipes, so that waiting for it does
// not wait for whoever else holds them.
func startOnPipes(cmd *exec.Cmd) (stdin, stdout, stderr *os.File, err error) {
	var all []*os.File
	defer func() {
		if err != nil {
			for _, f := range all {
				f.Close()
			}
		}
	}()
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, nil, err
		}
		all = append(all, r, w)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = all[0], all[3], all[5]
	if err := cmd.Start(); err != nil {
		return nil, nil, nil, err
	}
	for _, theirs := range []*os.File{all[0], all[3], all[5]} {
		theirs.Close()
	}
	return all[1], all[2], all[4], nil
}

var signals = map[string]syscall.Signal{"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT,
	"KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE, "SEGV": syscall.SIGSEGV, "TERM": syscall.SIGTERM}

func killGroup(pgid int, name string) bool {
	sig, ok := signals[name]
	return ok && syscall.Kill(-pgid, sig) == nil
}

func signalName(s syscall.Signal) string {
	for name, known := range signals {
		if known == s {
			return name
		}
	}
	return strconv.Itoa(int(s))
}

// forward connects a channel to a port of this machine.
func (s *Server) forward(n ssh.NewChannel) {
	var m struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if ssh.Unmarshal(n.ExtraData(), &m) != nil {
		n.Reject(ssh.ConnectionFailed, "bad request")
		return
	}
	addr := net.JoinHostPort(m.Host, strconv.Itoa(int(m.Port)))
	if !loopbackAddr(addr) {
		n.Reject(ssh.Prohibited, "only loopback addresses")
		return
	}
	to, err := net.Dial("tcp", addr)
	if err != nil {
		n.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer to.Close()
	ch, requests, err := n.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	go ssh.DiscardRequests(requests)
	back := make(chan struct{})
	go func() {
		io.Copy(ch, to)
		ch.CloseWrite()
		close(back)
	}()
	io.Copy(to, ch)
	to.(*net.TCPConn).CloseWrite()
	<-back
}
