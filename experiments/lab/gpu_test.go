//go:build linux

package lab

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const appsQuery = "nvidia-smi --query-compute-apps=pid,gpu_uuid,used_memory,process_name --format=csv,noheader,nounits"

// nvidia-smi shows the server that runs, others that come with it, and a clock
// that is held down.
func TestNvidiaSMI(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	s := fast(t)
	s.Cards, s.CardName, s.Driver = 2, "Card of 'mine'", "580.1"
	s.Throttle, s.ThrottleReason = 100, "hw_thermal_slowdown"
	s.Neighbours = []Neighbour{{Card: 1, MiB: 9000, Name: "python3 train.py, again"}}
	l, err := Start(ctx, Options{TempDir: t.TempDir(), Settings: &s})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close(ctx)
	r := connect(t, l.Host())

	const fields = "index,name,driver_version,memory.used,clocks.sm,clocks.max.sm,power.limit,temperature.gpu," +
		"clocks_throttle_reasons.active,clocks_event_reasons.hw_slowdown,ecc.mode.current"
	idle := output(t, r, "nvidia-smi --query-gpu="+fields+" --format=csv")
	if want := "index, name, driver_version, memory.used [MiB], clocks.current.sm [MHz], clocks.max.sm [MHz], power.limit [W], temperature.gpu, " +
		"clocks_event_reasons.active, clocks_event_reasons.hw_slowdown, ecc.mode.current\n" +
		"0, Card of 'mine', 580.1, 0 MiB, 345 MHz, 1980 MHz, 700.00 W, 30, 0x0000000000000001, Not Active, Enabled\n" +
		"1, Card of 'mine', 580.1, 0 MiB, 345 MHz, 1980 MHz, 700.00 W, 30, 0x0000000000000001, Not Active, Enabled"; idle != want {
		t.Errorf("idle:\n%s\nwant\n%s", idle, want)
	}
	if got := output(t, r, appsQuery); got != "" {
		t.Errorf("without a server: %q", got)
	}
	output(t, r, `setsid `+l.Host().Python+` -m sglang.launch_server --model-path m --port 0 >server.log 2>&1 </dev/null & echo $! >pid`)
	if !await(ctx, 30*time.Second, func() bool {
		text, err := os.ReadFile(filepath.Join(l.Host().Cwd, "server.log"))
		return err == nil && strings.Contains(string(text), "ready to roll")
	}) {
		t.Fatal("server does not start")
	}
	apps := output(t, r, appsQuery)
	if want := regexp.MustCompile(`^(\d+), GPU-[-0-9a-f]+0, 61470, sglang::scheduler\n(\d+), GPU-[-0-9a-f]+1, 9000, python3 train\.py, again$`); !want.MatchString(apps) {
		t.Errorf("with a server: %q", apps)
	}
	neighbour, err := strconv.Atoi(strings.Split(apps[strings.LastIndexByte(apps, '\n')+1:], ",")[0])
	if err != nil || syscall.Kill(neighbour, 0) != nil {
		t.Errorf("the neighbour does not live: %q, %v", apps, err)
	}
	if got := output(t, r, "nvidia-smi -i 0 --query-gpu=memory.used,clocks.sm,temperature.gpu,clocks_throttle_reasons.active,clocks_event_reasons.hw_slowdown,clocks_event_reasons.sw_power_cap --format=csv,noheader,nounits"); got !=
		"61470, 1650, 88, 0x0000000000000048, Active, Not Active" {
		t.Errorf("busy: %s", got)
	}
	if got := output(t, r, "nvidia-smi; nvidia-smi -L; nvidia-smi topo -m; nvidia-smi --version"); !strings.Contains(got, "CUDA Version: 13.0") ||
		!strings.Contains(got, "sglang::scheduler") || !strings.Contains(got, "GPU 1: Card of 'mine' (UUID: GPU-") || !strings.Contains(got, "NV18") {
		t.Error(got)
	}
	for command, want := range map[string]string{
		"nvidia-smi --query-gpu=index,foo --format=csv":           "Field \"foo\" is not a valid field to query.\nrc 2",
		"nvidia-smi --query-compute-apps=pid,clocks.sm":           "Field \"clocks.sm\" is not a valid field to query.\nrc 2",
		"nvidia-smi -i 7 --query-gpu=index --format=csv":          "No devices were found\nrc 6",
		"nvidia-smi --query-gpu=index --format=xml":               "Format modifier is not recognized.\nrc 2",
		"nvidia-smi --bogus":                                      "ERROR: Option --bogus is not recognized. Please run 'nvidia-smi -h'.\nrc 255",
		"nvidia-smi --query-gpu=count --format=csv,noheader -i 1": "2\nrc 0",
	} {
		got := strings.ReplaceAll(output(t, r, command+"; echo rc $?"), "\n\n", "\n")
		if got != want {
			t.Errorf("%s:\n%s\nwant\n%s", command, got, want)
		}
	}

	// A server that is gone is shown no more, and its neighbours went with it.
	pid, err := strconv.Atoi(output(t, r, "cat pid"))
	if err == nil {
		err = syscall.Kill(-pid, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatal(err)
	}
	if !await(ctx, 10*time.Second, func() bool { return output(t, r, appsQuery) == "" }) {
		t.Errorf("after its end: %s", output(t, r, appsQuery))
	}

	s.Cards, s.Neighbours = 0, nil
	if err := l.SetSettings(s); err != nil {
		t.Fatal(err)
	}
	if !await(ctx, 10*time.Second, func() bool { return syscall.Kill(neighbour, 0) != nil }) {
		t.Error("the neighbour lives on without the setting")
	}
	if got := output(t, r, "nvidia-smi -L; echo rc $?"); !strings.HasPrefix(got, "NVIDIA-SMI has failed because") || !strings.HasSuffix(got, "rc 9") {
		t.Errorf("without cards: %s", got)
	}
}

func TestModels(t *testing.T) {
	home := t.TempDir()
	if err := writeModels(home); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"target/config.json", "target/tokenizer.json", "target/model.safetensors", "draft/config.json", "draft/model.safetensors"} {
		if info, err := os.Stat(filepath.Join(home, "practice", name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	config := filepath.Join(home, "practice", "draft", "config.json")
	if err := os.WriteFile(config, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := writeModels(home); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(config); err != nil || string(text) != "{}" {
		t.Errorf("a changed model was written again: %s, %v", text, err)
	}
}

func TestCards_Validate(t *testing.T) {
	for _, c := range []struct {
		change func(*Settings)
		want   string
	}{
		{func(s *Settings) { s.Cards = 17 }, "gpus"},
		{func(s *Settings) { s.CardName = "a\nb" }, "gpu_name"},
		{func(s *Settings) { s.Throttle = 101 }, "throttle_pct"},
		{func(s *Settings) { s.ThrottleReason = "gpu_idle" }, "throttle_reason"},
		{func(s *Settings) { s.Neighbours = []Neighbour{{Card: 1, MiB: 1, Name: "x"}} }, "neighbours"},
		{func(s *Settings) { s.Neighbours = []Neighbour{{MiB: 1}} }, "neighbours"},
		{func(s *Settings) { s.Stops = []EarlyStop{{}} }, "stops"},
		{func(s *Settings) { s.Drift = -1 }, "drift_pct"},
		{func(s *Settings) { s.Power = 0 }, "gpu_power_w"},
	} {
		s := quiet(t)
		c.change(&s)
		if err := s.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want an error that names %s", err, c.want)
		}
	}
}
