package remote

import (
	"io"
	"sync"

	"golang.org/x/crypto/ssh"
)

// sshProcess is one exec line on a session channel.
type sshProcess struct {
	conn *sshConn
	ch   ssh.Channel
	done chan struct{}
	end  exitStatus // written before done is closed
	once sync.Once
}

func newSSHProcess(c *sshConn, ch ssh.Channel, requests <-chan *ssh.Request) *sshProcess {
	p := &sshProcess{conn: c, ch: ch, done: make(chan struct{})}
	c.spawn(func() { p.watch(requests) })
	return p
}

// watch takes the channel's requests until the server has closed it; then its
// place is free again.
func (p *sshProcess) watch(requests <-chan *ssh.Request) {
	defer p.conn.sessions.release()
	known := false
	for r := range requests {
		switch r.Type {
		case "exit-status":
			var m struct{ Status uint32 }
			if ssh.Unmarshal(r.Payload, &m) == nil && !known {
				known = true
				p.end.code = int(m.Status)
				close(p.done)
			}
		case "exit-signal":
			var m struct {
				Signal     string
				CoreDumped bool
				Error      string
				Lang       string
			}
			if ssh.Unmarshal(r.Payload, &m) == nil && !known {
				known = true
				p.end.signal = m.Signal
				close(p.done)
			}
		}
		if r.WantReply {
			r.Reply(false, nil) // fails only with the connection
		}
	}
	if !known {
		p.end.lost = p.conn.lostError("wait for the script", io.EOF)
		close(p.done)
	}
}

func (p *sshProcess) Write(b []byte) (int, error) { return p.ch.Write(b) }
func (p *sshProcess) Close() error                { return p.ch.CloseWrite() }
func (p *sshProcess) stdout() io.Reader           { return p.ch }
func (p *sshProcess) stderr() io.Reader           { return p.ch.Stderr() }
func (p *sshProcess) exited() <-chan struct{}     { return p.done }
func (p *sshProcess) status() exitStatus          { return p.end }

func (p *sshProcess) signal(name string) error {
	_, err := p.ch.SendRequest("signal", false, ssh.Marshal(struct{ Name string }{name}))
	return err
}

func (p *sshProcess) release() {
	p.once.Do(func() { p.ch.Close() }) // fails only when it is closed already
}
