package metrics_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"specrun/experiments/metrics"
)

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const plain = `[eagle-prof] cycles 1-100 (last 100 cycles)
  draft:              5.21 ms/cyc  (25.9%)
  target verify:     12.87 ms/cyc  (63.9%)
  draft re-extend:    1.44 ms/cyc  ( 7.1%)
  other:              0.62 ms/cyc  ( 3.1%)
  TOTAL:             20.14 ms/cyc
Decode batch, #running-req: 1, #token: 400, token usage: 0.00, accept len: 2.81, accept rate: 0.70, cuda graph: True, gen throughput (token/s): 139.50, #queue-req: 0
`

// prefixes are what loggers and collectors put before a line.
var prefixes = map[string]func(n int, line string) string{
	"none":           func(_ int, l string) string { return l },
	"sglang":         func(_ int, l string) string { return "[2025-11-20 10:01:02] " + l },
	"sglang ms":      func(_ int, l string) string { return "[2025-11-20 10:01:02.123 DP0 TP0] " + l },
	"sglang no year": func(_ int, l string) string { return "[11-20 10:01:02 TP0] " + l },
	"time of day":    func(_ int, l string) string { return "[10:01:02 TP0] " + l },
	"loguru":         func(_ int, l string) string { return "2025-11-20 10:01:02.812 | INFO     | a.b.c:f:222 - " + l },
	"logging":        func(_ int, l string) string { return "2025-11-20 10:01:02,812 - sglang.srt.x - INFO - " + l },
	"logging pid":    func(_ int, l string) string { return "2025-11-20 10:01:02 INFO 812 [TP0 worker.py:22] " + l },
	"basic":          func(_ int, l string) string { return "INFO:sglang.srt.managers.scheduler:" + l },
	"compose":        func(_ int, l string) string { return "sglang-1  | " + l },
	"compose colour": func(_ int, l string) string { return "\x1b[36msglang-1  | \x1b[0m[2025-11-20 10:01:02 TP0] " + l },
	"kubectl":        func(_ int, l string) string { return "[pod/sgl-6f7c9-abcde/engine] " + l },
	"kubectl stamps": func(_ int, l string) string { return "[pod/sgl-6f7c9-abcde/engine] 2025-11-02T09:01:10.000411Z " + l },
	"docker -t":      func(_ int, l string) string { return "2025-11-02T09:01:10.000411000Z " + l },
	"cri":            func(_ int, l string) string { return "2025-11-02T09:01:10.000411+01:00 stderr F " + l },
	"syslog":         func(_ int, l string) string { return "Nov 20 10:01:02 gpu-01 sglang[812]: " + l },
	"grep":           func(n int, l string) string { return fmt.Sprintf("server.log:%d:%s", n, l) },
	"grep -h":        func(n int, l string) string { return "logs/server.log:" + l },
	"grep context":   func(n int, l string) string { return fmt.Sprintf("server.log-%d-%s", n, l) },
	"torchrun":       func(_ int, l string) string { return "[rank0]: " + l },
	"torchrun glued": func(_ int, l string) string { return "[rank0]:" + l },
	"ray": func(_ int, l string) string {
		return "\x1b[36m(Worker pid=812, ip=10.0.0.3)\x1b[0m [2025-11-20 10:01:02 TP0] " + l
	},
	"cr lf":            func(_ int, l string) string { return l + "\r" },
	"progress bar":     func(_ int, l string) string { return " 42%|####  | 61/145 [00:58<00:41,  2.02it/s]\r" + l },
	"bom":              func(n int, l string) string { return strings.Repeat("\ufeff", 1) + l },
	"nul":              func(_ int, l string) string { return "\x00\x00" + l },
	"docker json file": dockerJSON,
	"cri parts": func(n int, l string) string {
		cut := len(l) / 2
		return "2025-11-02T09:01:10.1Z stdout P " + l[:cut] + "\n2025-11-02T09:01:10.1Z stderr F noise\n2025-11-02T09:01:10.1Z stdout F " + l[cut:]
	},
}

func dockerJSON(_ int, l string) string {
	b, err := json.Marshal(map[string]string{"log": l + "\n", "stream": "stdout", "time": "2025-11-02T09:01:10.000411Z"})
	if err != nil {
		panic(err)
	}
	return `{"log":` + strings.TrimPrefix(string(b), `{"log":`)
}

func TestPrefixesDoNotChangeTheNumbers(t *testing.T) {
	want := map[string]float64{"cycle_total": 20.14, "cycle_draft": 5.21, "cycle_verify": 12.87, "cycle_extend": 1.44, "cycle_other": 0.62,
		"accept_len": 2.81, "accept_rate": 0.7, "gen_throughput": 139.5, "running_req": 1}
	for name, prefix := range prefixes {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			for n, l := range strings.Split(strings.TrimSuffix(plain, "\n"), "\n") {
				log.WriteString(prefix(n+1, l) + "\n")
			}
			rep, err := metrics.Parse(strings.NewReader(log.String()), "x")
			if err != nil {
				t.Fatal(err)
			}
			for metric, v := range want {
				s, ok := rep.Find(metric, nil)
				if got := numbers(s); !ok || !reflect.DeepEqual(got, []float64{v}) {
					t.Errorf("%s = %v, want [%v]", metric, got, v)
				}
			}
			if rep.Engine != metrics.EngineSGLang || rep.Kind != metrics.KindProfiler || rep.IncompleteBlocks != 0 || rep.Crash != nil {
				t.Errorf("%s %s, incomplete %d, crash %+v", rep.Engine, rep.Kind, rep.IncompleteBlocks, rep.Crash)
			}
		})
	}
}

func TestTwoStreamsAreNotMixed(t *testing.T) {
	for key, prefix := range map[string]string{"rank": "[2025-11-20 10:01:02 TP%d] ", "service": "sglang-%d  | ", "pod": "[pod/sgl-%d/engine] ", "file": "run%d.log:"} {
		var log strings.Builder
		lines := strings.Split(strings.TrimSuffix(plain, "\n"), "\n")
		for _, l := range lines {
			for who := range 2 {
				log.WriteString(fmt.Sprintf(prefix, who) + strings.Replace(l, "20.14", fmt.Sprintf("2%d.14", who), 1) + "\n")
			}
		}
		rep, err := metrics.Parse(strings.NewReader(log.String()), "x")
		if err != nil {
			t.Fatal(err)
		}
		for who, label := range []string{"0", "1"} {
			found := false
			for _, s := range rep.Extract {
				if s.Metric == "cycle_total" && strings.Contains(s.Labels[key], label) {
					found = true
					if got := numbers(s); !reflect.DeepEqual(got, []float64{20.14 + float64(who)}) {
						t.Errorf("%s %s: %v", key, label, got)
					}
				}
			}
			if !found {
				t.Errorf("%s: no series for %s in %+v", key, label, rep.Extract)
			}
		}
	}
}

func TestLongLinesAndGarbageAround(t *testing.T) {
	var log bytes.Buffer
	log.WriteString("server_args=ServerArgs(" + strings.Repeat("x='y', ", 40_000) + ")\n")
	log.Write([]byte{0xff, 0xfe, 0x00, '\n'})
	log.WriteString(strings.Repeat("=", 300_000) + "\r")
	log.WriteString(strings.TrimSuffix(plain, "\n"))
	rep, err := metrics.Parse(&log, "x")
	if err != nil {
		t.Fatal(err)
	}
	if s, _ := rep.Find("cycle_total", nil); !reflect.DeepEqual(numbers(s), []float64{20.14}) {
		t.Errorf("cycle_total %v", numbers(s))
	}
	if s, _ := rep.Find("gen_throughput", nil); !reflect.DeepEqual(numbers(s), []float64{139.5}) {
		t.Errorf("gen_throughput %v: the last line is whole without its newline", numbers(s))
	}
}

func TestUnitsAndNumberForms(t *testing.T) {
	for text, want := range map[string]float64{
		"20.14 ms/cyc": 20.14, "20.14 ms / cycle": 20.14, "20140 us/cyc": 20.14, "20,140.0 us/cyc": 20.14, "0.02014 s/cyc": 20.14,
		"20140.0 µs/cyc": 20.14, "2.014e+01 ms/cyc": 20.14, "+2.014E1 ms/cyc": 20.14, "2.014e-2 s/cyc": 20.14, "20,14 ms/cyc": 20.14,
		"20140000 ns/cyc": 20.14, "20.14ms/cyc  (100.0%)": 20.14,
	} {
		rep, err := metrics.Parse(strings.NewReader("  TOTAL:             "+text+"\n"), "x")
		if err != nil {
			t.Fatal(err)
		}
		if s, _ := rep.Find("cycle_total", nil); !reflect.DeepEqual(numbers(s), []float64{want}) {
			t.Errorf("%q: %v, want %v", text, numbers(s), want)
		}
	}
	for _, text := range []string{"20.14", "20.14 m", "20.14 tok/s", "n/a ms/cyc", "20.14 GB/cyc"} {
		rep, err := metrics.Parse(strings.NewReader("  TOTAL:             "+text+"\n"), "x")
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := rep.Find("cycle_total", nil); ok {
			t.Errorf("%q read as %v", text, numbers(s))
		}
	}
}
