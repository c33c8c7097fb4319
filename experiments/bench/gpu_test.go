package bench

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	uuid0 = "GPU-16768996-792f-d2f2-db2e-e1021e48bc6a"
	uuid1 = "GPU-b0000000-792f-d2f2-db2e-e1021e48bc6a"
)

// fakeSMI puts the stand-in on PATH, with these files.
func fakeSMI(t *testing.T, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	bin, err := filepath.Abs("testdata/smi")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("FAKE_SMI", dir)
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return dir
}

const card0 = "index 0\nuuid " + uuid0 + "\nclocks.sm 1980\nclocks.mem 3201\npower.draw 698.12\ntemperature.gpu 61\n" +
	"clocks_event_reasons.active 0x0000000000000004\nclocks_throttle_reasons.active 0x0000000000000004\n"

// watchUntil watches until so many samples have come, and neighbours have been
// read.
func watchUntil(t *testing.T, job *Watch, samples int) Report {
	t.Helper()
	var clock atomic.Int64
	w := startWatch(t.Context(), job, func() int64 { return clock.Add(1) })
	deadline := time.Now().Add(10 * time.Second)
	for {
		w.mu.Lock()
		n, read, notes := len(w.samples), w.read, len(w.notes)
		w.mu.Unlock()
		if n >= samples && (read || job.Session == 0) || notes > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d samples, neighbours read: %v", n, read)
		}
		time.Sleep(5 * time.Millisecond)
	}
	w.stop()
	var r Report
	w.report(&r)
	return r
}

func TestWatch_SamplesByOneProgram(t *testing.T) {
	dir := fakeSMI(t, map[string]string{"gpu": card0})
	r := watchUntil(t, &Watch{}, 3)
	want := GPUSample{AtUs: 1, SM: 1980, Mem: 3201, Power: 698.12, Temp: 61, Reasons: []string{"power"}}
	if diff := cmp.Diff(want, r.GPU[0]); diff != "" {
		t.Error(diff)
	}
	if r.GPU[2].AtUs <= r.GPU[0].AtUs || len(r.Notes) != 0 {
		t.Errorf("samples %v, notes %q", r.GPU, r.Notes)
	}
	calls, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(calls), "--query-gpu"); n != 1 {
		t.Errorf("%d programs for %d samples:\n%s", n, len(r.GPU), calls)
	}
	throttled, all := r.Throttled()
	if throttled != all || all != len(r.GPU) || r.ThrottleReasons() != "power 100%" {
		t.Errorf("%d of %d throttled: %s", throttled, all, r.ThrottleReasons())
	}
}

func TestWatch_OlderDrivers(t *testing.T) {
	for name, c := range map[string]struct {
		unknown string
		reasons []string
	}{
		"before 535":     {"clocks_event_reasons.active\n", []string{"power"}},
		"neither":        {"clocks_event_reasons.active\nclocks_throttle_reasons.active\n", nil},
		"almost nothing": {"clocks_event_reasons.active\nclocks_throttle_reasons.active\nuuid\nclocks.mem\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			fakeSMI(t, map[string]string{"gpu": card0, "unknown": c.unknown})
			r := watchUntil(t, &Watch{}, 1)
			if len(r.GPU) == 0 || r.GPU[0].SM != 1980 || !slices.Equal(r.GPU[0].Reasons, c.reasons) {
				t.Errorf("samples %+v, notes %q", r.GPU, r.Notes)
			}
		})
	}
}

func TestWatch_AProgramThatCannotGoOnIsStartedAgain(t *testing.T) {
	fakeSMI(t, map[string]string{"gpu": card0, "noloop": ""})
	if r := watchUntil(t, &Watch{}, 2); len(r.GPU) < 2 {
		t.Errorf("samples %+v, notes %q", r.GPU, r.Notes)
	}
}

func TestWatch_NothingThere(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	w := startWatch(t.Context(), &Watch{Session: 1}, func() int64 { return 0 })
	w.stop()
	r := Report{}
	w.report(&r)
	if r.GPU != nil || r.UsersRead || len(r.Notes) != 0 || len(r.GPUMetrics())+len(r.GPUSamples()) != 0 {
		t.Errorf("%+v", r)
	}
	w = startWatch(t.Context(), nil, nil)
	w.stop()
	w.report(&r)
}

func TestWatch_AHangingDriverDelaysNothing(t *testing.T) {
	dir := fakeSMI(t, map[string]string{"hang": ""})
	w := startWatch(t.Context(), &Watch{Session: os.Getpid()}, func() int64 { return 0 })
	deadline := time.Now().Add(10 * time.Second)
	for {
		if calls, _ := os.ReadFile(filepath.Join(dir, "calls")); strings.Count(string(calls), "\n") == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("not called")
		}
		time.Sleep(5 * time.Millisecond)
	}
	done := make(chan struct{})
	go func() { w.stop(); close(done) }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("stop waits for the program")
	}
}

func TestWatch_NeighboursAreWhoIsNotOfTheServer(t *testing.T) {
	// This process is the server. Its session would be 0 where who began it is
	// outside of this PID namespace.
	self := os.Getpid()
	// A stranger has a session of its own and is no descendant of ours.
	out, err := exec.Command("sh", "-c", "setsid sleep 60 </dev/null >/dev/null 2>&1 & echo $!").Output()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	stranger := strconv.Itoa(pid) + ", " + uuid0 + ", 512, /opt/py, with, commas"
	fakeSMI(t, map[string]string{"gpu": card0, "gpu1": strings.ReplaceAll(strings.Replace(card0, "index 0", "index 1", 1), uuid0, uuid1),
		"apps": strconv.Itoa(self) + ", " + uuid0 + ", 130000, sglang::scheduler\n" + stranger + "\n4194999, " + uuid0 + ", 10, of another pid namespace\n"})
	r := watchUntil(t, &Watch{Session: self}, 4)
	if len(r.Neighbours) != 1 || r.Neighbours[0].PID != pid || r.Neighbours[0].Name != "/opt/py, with, commas" || r.Neighbours[0].MiB != 512 || r.Neighbours[0].User != me.Username {
		t.Errorf("neighbours %+v", r.Neighbours)
	}
	if !r.UsersRead {
		t.Error("the users of the GPUs were not read")
	}
	for _, s := range r.GPU {
		if s.Index != 0 {
			t.Fatalf("sample of a card that the server does not use: %+v", s)
		}
	}
	if got := r.Neighbours[0].String(); got != me.Username+"'s /opt/py, with, commas, 512 MiB (pid "+strconv.Itoa(pid)+")" {
		t.Error(got)
	}
	// Asked for by the spec, whoever uses it.
	r = watchUntil(t, &Watch{Session: self, GPUs: []string{uuid1}}, 4)
	if len(r.GPU) == 0 || slices.ContainsFunc(r.GPU, func(s GPUSample) bool { return s.Index != 1 }) {
		t.Errorf("samples %+v", r.GPU)
	}
}

func TestParseGPU_RealOutput(t *testing.T) {
	fields := gpuFields[:]
	nan := math.NaN()
	for _, c := range []struct {
		line string
		want GPUSample
		ok   bool
	}{
		{"0, " + uuid0 + ", 345, 3201, 79.58, 33, 0x0000000000000001", GPUSample{SM: 345, Mem: 3201, Power: 79.58, Temp: 33}, true},
		{"7, " + uuid0 + ", 1410, 1593, [N/A], 83, 0x0000000000000068", GPUSample{Index: 7, SM: 1410, Mem: 1593, Power: nan, Temp: 83, Reasons: []string{"hw", "thermal", "hw-thermal"}}, true},
		{"1, " + uuid0 + ", [Not Supported], [N/A], ERR!, [Unknown Error], [N/A]", GPUSample{Index: 1, SM: nan, Mem: nan, Power: nan, Temp: nan}, true},
		{"0, " + uuid0 + ", 345 MHz, 3201 MHz, 79.58 W, 33, 0x2", GPUSample{SM: 345, Mem: 3201, Power: 79.58, Temp: 33}, true},
		{"0, " + uuid0 + ", 1980, 3201, 700.00, 40, 0x0000000000000194", GPUSample{SM: 1980, Mem: 3201, Power: 700, Temp: 40, Reasons: []string{"power", "sync-boost", "power-brake", "display"}}, true},
		{"No devices were found", GPUSample{}, false},
		{"", GPUSample{}, false},
		{"x, " + uuid0 + ", 345, 3201, 79.58, 33, 0x0", GPUSample{}, false},
	} {
		got, uuid, ok := parseGPU(fields, c.line, 0)
		if ok != c.ok {
			t.Errorf("%q: %v", c.line, ok)
			continue
		}
		if diff := cmp.Diff(c.want, got, cmpopts.EquateNaNs()); ok && (diff != "" || uuid != uuid0) {
			t.Errorf("%q: uuid %s\n%s", c.line, uuid, diff)
		}
	}
}

func TestSurroundings_JSONAndMetrics(t *testing.T) {
	nan := math.NaN()
	var in Report
	for i := range 400 {
		in.GPU = append(in.GPU, GPUSample{AtUs: int64(i), Index: i % 2, SM: float64(1000 + i%2*100), Mem: nan, Power: nan, Temp: float64(40 + i%7)})
	}
	in.GPU[3].Reasons = []string{"sync-boost"}
	in.GPU[5].Reasons = []string{"thermal"}
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Report
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(in.GPU, out.GPU, cmpopts.EquateNaNs()); diff != "" {
		t.Error(diff)
	}
	ms := map[string]float64{}
	for _, m := range out.GPUMetrics() {
		ms[m.Name+" "+m.Unit] = m.Value
	}
	if diff := cmp.Diff(map[string]float64{"gpu_clock_mean MHz": 1050, "gpu_temp_max C": 46}, ms); diff != "" {
		t.Error(diff)
	}
	if throttled, all := out.Throttled(); throttled != 1 || all != 400 {
		t.Errorf("%d of %d", throttled, all)
	}
	samples := out.GPUSamples()
	if len(samples) != 2*2*100 || samples[0].Labels["gpu"] != "0" || samples[len(samples)-1].Labels["gpu"] != "1" {
		t.Errorf("%d samples", len(samples))
	}
}

func TestCaches_SeeWhatWasCompiled(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	put := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		// Not all file systems count finer than a clock tick.
		if err := os.Chtimes(path, time.Time{}, time.UnixMicro(time.Now().UnixMicro())); err != nil {
			t.Fatal(err)
		}
	}
	put(".triton/cache/a/k.cubin", "1")
	put(".cache/flashinfer/x.so", "1")
	put("rewritten/x.so", "1")
	job := &Watch{Caches: []string{"~/.triton/cache", dir + "/.cache/flashinfer", "~/rewritten", "~/new", "~/never"}}
	w := startWatch(context.Background(), job, func() int64 { return 0 })
	put(".triton/cache/b/k.cubin", "1")
	put(".cache/flashinfer/x.so.lock", "1") // taken by whoever loads, too
	put("rewritten/x.so", "2")
	put("new/k", "1")
	w.stop()
	var r Report
	w.report(&r)
	changed, known := r.CachesChanged()
	if want := []string{"~/.triton/cache", "~/rewritten", "~/new"}; !known || !slices.Equal(changed, want) {
		t.Errorf("changed %q (known: %v), want %q", changed, known, want)
	}
	if s := r.Caches[0]; s.Before.Files != 1 || s.After.Files != 2 || s.Before.NewestUs == 0 {
		t.Errorf("%+v", s)
	}
	if _, known := r.Caches[0].Changed(); !known {
		t.Error("what both looks saw whole is not known")
	}
	if changed, known := (Surroundings{}).CachesChanged(); known || changed != nil {
		t.Error("nobody looked, and yet it is known")
	}
}

// A look that was cut, by the time or the number of files, says nothing of the
// files behind: where the second gets further, no file has come.
func TestCaches_LooksThatWereCutAreComparedAsFarAsBothSaw(t *testing.T) {
	dir := t.TempDir()
	// In a walk "a/z" comes before "a.b/k", as text behind it.
	for _, name := range []string{"a/y", "a/z", "a.b/k", "b/k", "c/k", "d/k"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.UnixMicro(5)); err != nil {
			t.Fatal(err)
		}
	}
	after := func(n int) func(int) bool { return func(files int) bool { return files >= n } }
	all := after(100)
	look := func(before, second func(int) bool) Cache {
		b := lookAtCache(dir, "", before)
		return Cache{Before: b, After: lookAtCache(dir, b.Last, second)}
	}
	for _, c := range []struct {
		name           string
		before, second func(int) bool
		files          int // of the second
	}{{"the first was cut", after(3), all, 3}, {"the first was cut within a folder", after(1), all, 1}, {"neither was", all, all, 6}} {
		got := look(c.before, c.second)
		if changed, known := got.Changed(); changed || !known || got.After.Files != c.files {
			t.Errorf("%s: changed %v, known %v: %+v", c.name, changed, known, got)
		}
	}
	if changed, known := look(all, after(3)).Changed(); changed || known {
		t.Errorf("the second was cut: changed %v, known %v", changed, known)
	}
	if changed, known := look(after(4), after(2)).Changed(); changed || known {
		t.Errorf("both were cut, the second before: changed %v, known %v", changed, known)
	}

	before := lookAtCache(dir, "", after(4)) // until b/k
	for _, c := range []struct {             // in this order: what was made stays
		name string
		want bool
	}{{"c/new", false}, {"a/new", true}} {
		name, want := c.name, c.want
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if changed, known := (Cache{Before: before, After: lookAtCache(dir, before.Last, all)}).Changed(); changed != want || !known {
			t.Errorf("with %s: changed %v, known %v", name, changed, known)
		}
	}
	if err := os.Remove(filepath.Join(dir, "b/k")); err != nil { // the last one that was seen
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "a/new")); err != nil {
		t.Fatal(err)
	}
	if changed, known := (Cache{Before: before, After: lookAtCache(dir, before.Last, all)}).Changed(); !changed || !known {
		t.Errorf("without the last one: changed %v, known %v", changed, known)
	}
	// Written while it could be looked at whole before, and not after.
	if changed, known := (Cache{Before: CacheState{Files: 6, NewestUs: 5}, After: CacheState{Files: 3, NewestUs: 9, Cut: true}}).Changed(); !changed || !known {
		t.Errorf("a newer file: changed %v, known %v", changed, known)
	}
	// A report of an earlier version does not say how far its look came.
	if changed, known := (Cache{Before: CacheState{Files: 3, Cut: true}, After: CacheState{Files: 6, NewestUs: 9}}).Changed(); changed || known {
		t.Errorf("an old report: changed %v, known %v", changed, known)
	}
}
