package experiments

import (
	"fmt"
	"strings"
	"testing"
)

// Two servers that write into one log, in turns, are two runs, and each start of
// one is a run again.
func TestReadLogRuns_EachServerIsARun(t *testing.T) {
	t.Parallel()
	for name, prefix := range map[string][2]string{
		"service": {"web-1  | ", "web-2  | "},
		"pod":     {"[pod/web-1/main] ", "[pod/web-2/main] "},
		"file":    {"web-1.log:", "web-2.log:"},
	} {
		t.Run(name, func(t *testing.T) {
			var b strings.Builder
			start := func(hour, server, steps int) {
				fmt.Fprintf(&b, "%s[2026-01-01 %02d:00:00] server_args=ServerArgs(model_path='/m', speculative_algorithm='EAGLE3', speculative_num_steps=%d)\n", prefix[server], hour, steps)
			}
			calls := 0
			numbers := func(hour, server int, rate, total float64) {
				calls++ // the same line again counts once
				for k := range 4 {
					fmt.Fprintf(&b, "%s[2026-01-01 %02d:00:%02d TP0] Decode batch, #running-req: 1, #token: 9, token usage: 0.01, accept len: 1.87, cuda graph: True, gen throughput (token/s): %.2f, #queue-req: 0\n",
						prefix[server], hour, k+2, rate)
				}
				fmt.Fprintf(&b, `%s{"specrun":"profile","schema":1,"profiler":"profiling-v4","version":"1","hash":"0123456789ab","worker":"v1","rank":0,"t_start":%d,"t_end":%d,"cycles":120,"wall_ms":%g,"batch_sum":120,"batch_min":1,"batch_max":1,"tokens":225,"request_cycles":120,"steps":2}`+"\n",
					prefix[server], 1767261600+3600*(hour-10)+10*calls, 1767261603+3600*(hour-10)+10*calls, 120*total)
			}
			start(10, 0, 2)
			start(10, 1, 3)
			numbers(10, 0, 100, 20)
			numbers(10, 1, 60, 30)
			numbers(10, 0, 100, 20.5)
			start(11, 1, 4)
			numbers(11, 1, 50, 40)
			runs, err := ReadLogRuns(strings.NewReader(b.String()), "both.log")
			if err != nil {
				t.Fatal(err)
			}
			want := []struct {
				server, steps string
				rate, total   float64
			}{{"web-1", "2", 100, 20.25}, {"web-2", "3", 60, 30}, {"web-2", "4", 50, 40}}
			if len(runs) != len(want) {
				t.Fatalf("%d runs", len(runs))
			}
			for i, w := range want {
				d := runs[i].Data
				if rate, total := metric(d, "gen_throughput", "server_log"), metric(d, "cycle_total", "profiler"); rate != w.rate || total != w.total {
					t.Errorf("run %d: %v tok/s and TOTAL %v, want %v and %v", i, rate, total, w.rate, w.total)
				}
				if server, steps := factOf(d, "host", "server"), factOf(d, "flags", "speculative_num_steps"); !strings.HasPrefix(server, name+" "+w.server) || steps != w.steps {
					t.Errorf("run %d: server %q with %s steps, want %s with %s", i, server, steps, w.server, w.steps)
				}
				if hour := runs[i].StartUs / 1e6 / 3600 % 24; hour != 10+int64(i)/2 {
					t.Errorf("run %d starts at %d o'clock", i, hour)
				}
			}
		})
	}
}

// What stands beside the server and says nothing of it is no run.
func TestReadLogRuns_AContainerWithoutNumbersIsNoRun(t *testing.T) {
	t.Parallel()
	log := "web-1  | [2026-01-01 10:00:00] " + strings.TrimPrefix(fmt.Sprintf(storyDecode, 1.9, 90.), "[2026-11-29 10:00:00] ")
	log += log + "client-1  | Output token throughput (tok/s):         88.10\n"
	runs, err := ReadLogRuns(strings.NewReader(log), "x.log")
	if err != nil || len(runs) != 1 || metric(runs[0].Data, "gen_throughput", "server_log") != 90 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
}
