//go:build integration && linux

package lab

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestFlags(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	s := fast(t)
	t.Run("unknown", func(t *testing.T) {
		srv := startServer(t, e, s, nil, "--no-such-flag", "1")
		if code := srv.wait(); code != 2 || !strings.Contains(srv.text(), "launch_server.py: error: unrecognized arguments: --no-such-flag 1") {
			t.Errorf("exit status %d:\n%s", code, srv.text())
		}
	})
	t.Run("choice", func(t *testing.T) {
		srv := startServer(t, e, s, nil, "--speculative-attention-mode", "both")
		if code := srv.wait(); code != 2 || !strings.Contains(srv.text(), "invalid choice: 'both'") {
			t.Errorf("exit status %d:\n%s", code, srv.text())
		}
	})
	t.Run("draft tokens adjusted", func(t *testing.T) {
		srv := startServer(t, e, s, nil, append(speculative(3), "--speculative-num-draft-tokens", "24", "--served-model-name", "it's\n \"x\"")...).ready()
		if !strings.Contains(srv.text(), "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1") {
			t.Errorf("no warning in\n%s", srv.text())
		}
		var i struct {
			info
			Name string `json:"served_model_name"`
		}
		if srv.get("/server_info", &i); i.Drafts != 4 || i.Name != "it's\n \"x\"" {
			t.Errorf("%+v", i)
		}
	})
	t.Run("no speculation", func(t *testing.T) {
		srv := startServer(t, e, s, nil).ready()
		cycleByDeviceClock(t, srv, s.Cycle(0, true, 0))
		if strings.Contains(srv.text(), "accept len") {
			t.Errorf("acceptance without speculation:\n%s", srv.text())
		}
	})
	t.Run("another protocol", func(t *testing.T) {
		srv := startServer(t, e, s, []string{"NCCL_PROTO=Simple"}, speculative(2)...).ready()
		cycleByDeviceClock(t, srv, s.Cycle(2, false, 0))
	})
}

// Requests of unequal lengths leave the batch one after the other.
func TestMixedBatch(t *testing.T) {
	t.Parallel()
	s := fast(t)
	s.BatchRequest = 2
	srv := startServer(t, newEnvironment(t), s, nil, append(speculative(2), "--decode-log-interval", "5", "--skip-server-warmup")...).ready()
	errs := make(chan error)
	for i := range 4 {
		go func() {
			resp, err := http.Post(srv.base+"/v1/completions", "application/json",
				strings.NewReader(fmt.Sprintf(`{"prompt":"p %d","max_tokens":%d,"ignore_eos":true}`, i, 600*(i+1))))
			if err == nil {
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			errs <- err
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for _, n := range []string{"4", "1"} {
		if !strings.Contains(srv.text(), "Decode batch, #running-req: "+n+",") {
			t.Errorf("never %s requests together:\n%s", n, srv.text())
		}
	}
}

// A throttled card and drift reach the clock of a running server.
func TestSlowerServers(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	s := fast(t)
	slow := s
	slow.Throttle, slow.ThrottleSlower = 100, 50
	device := s // the same by its device times
	device.DraftStep, device.VerifyBase, device.VerifyToken, device.Extend = 1.5*s.DraftStep, 1.5*s.VerifyBase, 1.5*s.VerifyToken, 1.5*s.Extend
	cycleByDeviceClock(t, startServer(t, e, slow, nil, speculative(2)...).ready(), device.Cycle(2, true, 0))
	drifted := s
	drifted.Drift = 25
	cycleByDeviceClock(t, startServer(t, e, drifted, nil, speculative(2)...).ready(), 1.25*s.Cycle(2, true, 0))
}
