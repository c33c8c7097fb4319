package experiments

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/metrics"
	"specrun/internal/tier"
)

// filterBench runs the host's filter again and again in one interpreter.
type filterBench struct {
	in  io.WriteCloser
	out *bufio.Reader
}

const benchLoop = `
import sys, types, json
il = types.ModuleType("il"); exec(compile(sys.argv[1], "importlog.py", "exec"), il.__dict__)
markers = json.loads(sys.argv[2])
class Out:
    def __init__(self): self.b = bytearray()
    def write(self, b): self.b += b
while True:
    head = sys.stdin.buffer.readline()
    if not head: break
    block, n = map(int, head.split())
    data = sys.stdin.buffer.read(n)
    out = Out(); f = il.Filter(markers, out)
    at = 0
    while at < n:
        end = data.rfind(b"\n", at, at + block) + 1 or data.find(b"\n", at) + 1 or n
        if n - at <= block: end = data.rfind(b"\n", at) + 1 or n
        if end <= at: end = n
        f.feed(data[at:end]); at = end
    f.finish()
    sys.stdout.buffer.write(b"%d\n" % len(out.b) + out.b); sys.stdout.buffer.flush()
`

func newFilterBench(t testing.TB) *filterBench {
	t.Helper()
	markers, err := json.Marshal(metrics.LogMarkers())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", "-c", benchLoop, importProgram, string(markers))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); cmd.Wait() })
	return &filterBench{in, bufio.NewReader(out)}
}

// rows is what of a log would travel, when it is read block by block.
func (b *filterBench) rows(t testing.TB, log []byte, block int) []byte {
	t.Helper()
	if _, err := fmt.Fprintf(b.in, "%d %d\n%s", block, len(log), log); err != nil {
		t.Fatal(err)
	}
	var n int
	if _, err := fmt.Fscanf(b.out, "%d\n", &n); err != nil {
		t.Fatal(err)
	}
	rows := make([]byte, n)
	if _, err := io.ReadFull(b.out, rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

// sameReading compares what is read out of a log with what is read out of its
// rows.
func sameReading(t testing.TB, log, rows []byte) {
	t.Helper()
	want, err := metrics.Parse(bytes.NewReader(log), "x")
	if err != nil {
		t.Fatal(err)
	}
	got, err := metrics.Parse(newRowReader(bytes.NewReader(rows)), "x")
	if err != nil {
		t.Fatal(err)
	}
	want.Warnings, got.Warnings = nil, nil
	if d := cmp.Diff(asText(t, want), asText(t, got)); d != "" {
		t.Fatalf("a log and its rows read differently:\n%s\nlog:\n%.4000q", d, log)
	}
}

func asText(t testing.TB, r *metrics.Report) string {
	t.Helper()
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Text samples of all kinds, what tells nothing put in between.
func samples(t testing.TB) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("metrics/testdata/*.log")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d samples, error %v", len(files), err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(f)] = b
	}
	return out
}

func TestImportFilter_RowsReadLikeTheLog(t *testing.T) {
	t.Parallel()
	b := newFilterBench(t)
	all := samples(t)
	for n, name := range slices.Sorted(maps.Keys(all)) {
		log := all[name]
		t.Run(name, func(t *testing.T) {
			for _, block := range []int{1 << 20, 700}[tier.Size(1, 0):] {
				sameReading(t, log, b.rows(t, log, block))
			}
			if n%tier.Every(17) != 0 {
				return
			}
			padded := padding(log)
			sameReading(t, padded, b.rows(t, padded, 1<<16))
		})
	}
}

// padding puts lines between the lines of a log, and many behind each tenth.
func padding(log []byte) []byte {
	var out bytes.Buffer
	for i, line := range bytes.SplitAfter(log, []byte("\n")) {
		out.Write(line)
		if !bytes.HasSuffix(line, []byte("\n")) {
			continue
		}
		n := i % 2
		if i%10 == 9 {
			n = 150
		}
		for j := range n {
			fmt.Fprintf(&out, "INFO:     127.0.0.1:%d - \"POST /v1/chat/completions HTTP/1.1\" 200 OK\n", j)
			fmt.Fprintf(&out, "[2026-01-01 00:00:%02d] debug: %d tokens for sglang and vllm\n", j%60, j)
		}
	}
	return out.Bytes()
}

// FuzzImportFilter mixes the lines of two samples as the input says.
func FuzzImportFilter(f *testing.F) {
	all := samples(f)
	var names []string
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	f.Add([]byte{0, 1, 1, 2, 3, 0, 0, 9})
	f.Add(bytes.Repeat([]byte{7, 30, 200, 0, 1}, 40))
	b := newFilterBench(f)
	f.Fuzz(func(t *testing.T, how []byte) {
		if len(how) < 3 || len(how) > 4096 {
			return // names no samples, or mixes more than a test should
		}
		log := mix(all[names[int(how[0])%len(names)]], all[names[int(how[1])%len(names)]], how[2:])
		sameReading(t, log, b.rows(t, log, 64+64*int(how[2])))
	})
}

// mix takes lines from a and b in turn: each byte says from which, how many,
// and what to put in between.
func mix(a, b []byte, how []byte) []byte {
	sources := [2][]string{strings.SplitAfter(string(a), "\n"), strings.SplitAfter(string(b), "\n")}
	var out bytes.Buffer
	for i := 0; len(sources[0])+len(sources[1]) > 0 && i < 4*len(how)+200; i++ {
		h := how[i%len(how)]
		s := &sources[h&1]
		n := min(1+int(h>>1)%9, len(*s))
		for _, line := range (*s)[:n] {
			out.WriteString(line)
		}
		*s = (*s)[n:]
		for j := range int(h>>4) * int(h>>4) {
			fmt.Fprintf(&out, "INFO: %d \"POST /generate HTTP/1.1\" 200 OK vllm\n", j)
		}
	}
	return out.Bytes()
}
