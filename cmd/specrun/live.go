package main

import (
	"fmt"
	"io"
	"time"
)

// noWidth stands for the columns of a terminal that does not tell them.
const noWidth = 80

// setLive replaces the live status line. body is cut to the width of the
// terminal, tail is always whole; it is asked again with every redraw, for times
// that run on. Without a terminal nothing is written: each thing that ends is
// noted anyway.
func (p *printer) setLive(body string, tail func() string) {
	if p.quiet || !p.live {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.body, p.tail = body, tail
	p.draw()
}

// progress is setLive of a line without a tail.
func (p *printer) progress(format string, args ...any) {
	p.setLive(fmt.Sprintf(format, args...), nil)
}

// draw puts the live line on the screen; the caller holds mu.
func (p *printer) draw() {
	tail := ""
	if p.tail != nil {
		tail = p.tail()
	}
	// One column stays free: a full line would make the terminal wrap, and what
	// is on the line above could not be taken back.
	fmt.Fprint(p.err, "\r\x1b[K", fit(p.body, tail, p.width()-1))
	p.status = true
}

// width is the columns of the terminal behind stderr.
func (p *printer) width() int {
	if p.columns != nil {
		if width := p.columns(); width > 0 {
			return width
		}
	}
	return noWidth
}

// fit puts body and tail in a line of at most width characters. The tail, which
// has the times, is the last to go.
func fit(body, tail string, width int) string {
	room := max(0, width-len([]rune(tail)))
	if text := []rune(body); len(text) > room {
		body = ""
		if room > 1 {
			body = string(text[:room-1]) + "…"
		}
	}
	line := []rune(body + tail)
	return string(line[:min(len(line), max(0, width))])
}

// clear removes the status line; the caller holds mu. Nothing brings it back but
// the next progress.
func (p *printer) clear() {
	if p.status {
		io.WriteString(p.err, "\r\x1b[K")
		p.status = false
	}
}

// done removes the live line at the end of a command.
func (p *printer) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// tick redraws the live line every second, so that its times run on, until stop
// is called, which waits for the last redraw.
func (p *printer) tick() (stop func()) {
	if p.quiet || !p.live {
		return func() {}
	}
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(time.Second)
		defer every.Stop()
		for {
			select {
			case <-every.C:
				p.mu.Lock()
				if p.status {
					p.draw()
				}
				p.mu.Unlock()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}
