package server

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

func (w *wait) startProbe(ctx context.Context) {
	ctx, w.stop = context.WithCancel(ctx)
	done := make(chan error, 1)
	w.probe, w.probeBegan = done, time.Now()
	client := Client(w.h)
	go func() {
		defer client.CloseIdleConnections()
		done <- w.r.Probe(ctx, client, w.base)
	}()
}

func (w *wait) endProbe(err error) {
	w.stop()
	w.probe = nil
	w.probeErr = err
	w.nextProbe = time.Now().Add(probeWait)
	w.sayProbe()
}

// sayProbe tells what a probe failed with, when that is another thing than before:
// a server whose process is up and that does not serve looks like one that loads.
func (w *wait) sayProbe() {
	if w.probeErr == nil {
		return
	}
	text := strings.Join(strings.Fields(w.probeErr.Error()), " ")
	if r := []rune(text); len(r) > probeText {
		text = string(r[:probeText]) + "..."
	}
	if text == w.saidProbe || time.Since(w.saidAt) < probeSaid {
		return
	}
	w.saidProbe, w.saidAt = text, time.Now()
	w.note("it listens but does not serve yet: " + text)
}

// lastProbe is what the last probe failed with, or that there is no answer yet.
func (w *wait) lastProbe() error {
	if w.probe != nil && w.probeErr == nil {
		return fmt.Errorf("the generation that it was asked for %v ago has no answer", time.Since(w.probeBegan).Round(100*time.Millisecond))
	}
	return w.probeErr
}

// stopProbe waits for a probe that still runs.
func (w *wait) stopProbe() {
	if w.probe != nil {
		w.stop()
		<-w.probe
	}
}

// baseURL is where a listener on addr answers from its own host.
func baseURL(addr string, port int) string {
	ip, err := netip.ParseAddr(addr)
	switch {
	case err != nil || ip == netip.IPv4Unspecified() || ip == netip.IPv6Unspecified():
		addr = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(addr, strconv.Itoa(port))
}

// Client returns an HTTP client whose connections begin on the host. It uses no
// proxy and has no time limit of its own. Close its idle connections when done.
func Client(h Host) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext:         h.DialContext,
		MaxIdleConnsPerHost: 4,
		DisableCompression:  true,
	}}
}
