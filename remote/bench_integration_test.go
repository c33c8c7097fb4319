//go:build integration

package remote_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"specrun/remote"
	"specrun/remote/remotetest"
)

// The shape of a deploy on a cold connection: connect, read facts while SFTP
// opens, stage 60 kB, commit. The round trips are counted at 100 ms each.
func BenchmarkSSHD_ColdDeploy(b *testing.B) {
	s := remotetest.StartSSHD(b, remotetest.Options{})
	data := bytes.Repeat([]byte("x"), 60_000)
	for _, rtt := range []time.Duration{0, 100 * time.Millisecond} {
		b.Run(fmt.Sprintf("rtt=%v", rtt), func(b *testing.B) {
			c := s.Config()
			if rtt > 0 {
				p := remotetest.StartProxy(b, s.HostPort())
				p.Delay(rtt / 2)
				c = p.Through(c)
			}
			dir := b.TempDir()
			var marks [4]time.Duration
			for i := 0; b.Loop(); i++ {
				start := time.Now()
				lap := func(n int) { marks[n] += time.Since(start); start = time.Now() }
				h, err := remote.Dial(b.Context(), c)
				if err != nil {
					b.Fatal(err)
				}
				lap(0)
				run := func() {
					if _, err := h.Run(b.Context(), remote.Script{Name: "x", Text: "main() { echo x; }"}); err != nil {
						b.Fatal(err)
					}
				}
				run()
				h.WarmRun(b.Context())
				lap(1)
				if err := h.Put(b.Context(), remote.File{Path: filepath.Join(dir, fmt.Sprint(time.Now().UnixNano())), Data: data, Sync: true}); err != nil {
					b.Fatal(err)
				}
				lap(2)
				run()
				lap(3)
				h.Close()
			}
			for i, name := range []string{"dial", "facts", "put", "commit"} {
				b.ReportMetric(float64(marks[i].Microseconds())/1000/float64(b.N), name+"-ms")
			}
		})
	}
}
