package remote

import "context"

// A spare is a session in which /bin/sh waits for its script. sshd opens a
// session with an empty window, so a script costs three round trips: open, exec
// and window, script and output. With a spare only the last is left, and the
// start of the login shell is over, too.

func (d *sshDriver) warm(ctx context.Context) {
	// Only a help: who needs the session next reports what is wrong.
	_ = d.on(ctx, func(c *sshConn) error { return c.warm(ctx) })
}

func (c *sshConn) warm(ctx context.Context) error {
	c.mu.Lock()
	have := c.spare != nil
	c.mu.Unlock()
	// One place must stay for others.
	if have || c.sessions.free() < 2 {
		return nil
	}
	p, err := c.start(ctx, execLine, idle)
	if err != nil {
		return err
	}
	c.mu.Lock()
	keep := c.spare == nil && !c.ended
	if keep {
		c.spare = p.(*sshProcess)
	}
	c.mu.Unlock()
	if !keep {
		p.release()
	}
	// Who began to wait before there was a spare did not see it.
	if c.sessions.wanted() || c.sessions.single() {
		c.dropSpare()
	}
	return nil
}

// takeSpare returns the spare if there is one and it still waits.
func (c *sshConn) takeSpare() process {
	c.mu.Lock()
	p := c.spare
	c.spare = nil
	c.mu.Unlock()
	if p == nil {
		return nil
	}
	select {
	case <-p.exited():
		p.release()
		return nil
	default:
		return p
	}
}

// dropSpare gives the spare's place to others.
func (c *sshConn) dropSpare() {
	if p := c.takeSpare(); p != nil {
		p.release()
	}
}
