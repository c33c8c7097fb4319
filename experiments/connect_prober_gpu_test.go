package experiments

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// gpuSite adds two cards to a host.
func gpuSite(t *testing.T) *probeSite {
	s := newProbeSite(t)
	dir, err := filepath.Abs("testdata/smi")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		s.put(fmt.Sprintf("smi/gpu%d", i), fmt.Sprintf("index %d\nname NVIDIA H200\nuuid GPU-%d\ndriver_version 580.159.04\nmemory.total 143771\npower.limit 700.00\npower.default_limit 700.00\n"+
			"clocks.max.sm 1980\nclocks.applications.graphics %d\necc.mode.current Enabled\npersistence_mode Enabled\nmig.mode.current Disabled\npcie.link.gen.max 5\n", i, i, 1980-i*480))
	}
	for _, name := range []string{"topo", "header"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		s.put("smi/"+name, string(text))
	}
	s.extra = append(s.extra, "FAKE_SMI="+filepath.Join(s.home, "smi"))
	s.extra[0] = "PATH=" + dir + ":" + os.Getenv("PATH")
	return s
}

func TestProber_GPUsInEveryShell(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"dash", "bash", "busybox"} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Fatalf("%v: make prereqs installs it", err)
			}
			s := gpuSite(t)
			link := filepath.Join(s.home, "sh")
			if err := os.Symlink(path, link); err != nil {
				t.Fatal(err)
			}
			s.shell = []string{link}
			s.put("smi/unknown", "vbios_version\npcie.link.width.max\nclocks.max.memory\nmig.mode.current\n")
			s.put("smi/apps", "1, 512, some, name\n"+fmt.Sprint(os.Getpid())+", 130000, ours\nnot a line\n4194999, 3, of another namespace\n")
			p := s.prober()
			facts, err := p.Facts(context.Background(), Where{})
			if err != nil {
				t.Fatal(err)
			}
			got := byKey(facts)
			if v := got["gpu topology"]; !strings.HasPrefix(v, "1 pairs by NV18; sha256 ") {
				t.Errorf("topology %q", v)
			}
			delete(got, "gpu topology")
			want := map[string]string{"gpu 0 name": "NVIDIA H200", "gpu 1 uuid": "GPU-1", "gpu driver": "580.159.04", "gpu memory": "143771 MiB", "gpu max_clock": "1980 MHz",
				"gpu cuda": "13.0", "gpu pcie_generation_max": "5", "gpu vbios": ""}
			for k, v := range want {
				if got[k] != v {
					t.Errorf("%s = %q, want %q", k, got[k], v)
				}
			}
			for _, k := range []string{"host kernel", "host cpus", "host memory_kib", "host container", "host virtual_machine"} {
				if got[k] == "" {
					t.Errorf("no %s", k)
				}
			}
			if list, err := os.ReadFile("/sys/devices/system/node/node0/cpulist"); err == nil && !strings.Contains(got["host numa_cpus"], "0: "+strings.TrimSpace(string(list))) {
				t.Errorf("numa_cpus %q, node 0 has %q", got["host numa_cpus"], list)
			}
			session := os.Getpid()
			_, launch := s.launch(p, LaunchQuery{PID: session, Session: session})
			want = map[string]string{"gpu power_limit": "700.00 W", "gpu applied_clock": "GPU 0: 1980 MHz; GPU 1: 1500 MHz", "gpu ecc": "Enabled", "gpu mig": "",
				"gpu other_users": "root: some, name, 512 MiB (pid 1)"}
			for k, v := range want {
				if launch[k] != v {
					t.Errorf("%s = %q, want %q", k, launch[k], v)
				}
			}
			if launch["host cpu_affinity"] == "" || !strings.HasPrefix(launch["host clock_offset_ms"], "0 (within ") {
				t.Errorf("%v", slices.Sorted(maps.Keys(launch)))
			}
		})
	}
}

func TestProber_AWedgedDriverIsAFact(t *testing.T) {
	t.Parallel()
	s := gpuSite(t)
	if err := os.RemoveAll(filepath.Join(s.home, "smi")); err != nil {
		t.Fatal(err)
	}
	s.put("bin/nvidia-smi", "#!/bin/sh\necho 'NVIDIA-SMI has failed because it could not communicate with the NVIDIA driver.'\nexit 9\n")
	if err := os.Chmod(filepath.Join(s.home, "bin/nvidia-smi"), 0o755); err != nil {
		t.Fatal(err)
	}
	s.extra[0] = "PATH=" + s.home + "/bin:" + os.Getenv("PATH")
	_, got := s.launch(s.prober(), LaunchQuery{})
	if !strings.HasPrefix(got["gpu nvidia_smi"], "no answer: NVIDIA-SMI has failed") {
		t.Errorf("%v", got)
	}
}

func TestTopology_EightGPUs(t *testing.T) {
	t.Parallel()
	row := func(n int, link string) string {
		cells := []string{fmt.Sprintf("GPU%d", n)}
		for i := range 8 {
			switch {
			case i == n:
				cells = append(cells, " X ")
			case i/4 == n/4:
				cells = append(cells, link)
			default:
				cells = append(cells, "SYS")
			}
		}
		return strings.Join(append(cells, "0-47", "0", "N/A"), "\t")
	}
	lines := []string{"\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m"}
	for i := range 8 {
		lines = append(lines, row(i, "PIX"))
	}
	got := topology(append(lines, "", "Legend:"))
	if len(got) != 1 || !strings.HasPrefix(got[0].Value, "12 pairs by PIX, 16 pairs by SYS; sha256 ") {
		t.Errorf("%+v", got)
	}
	one := topology([]string{"\t\x1b[4mGPU0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m", "GPU0\t X \t0-15\t0\t\tN/A"})
	if len(one) != 1 || !strings.HasPrefix(one[0].Value, "one GPU; ") {
		t.Errorf("%+v", one)
	}
	if topology(nil) != nil {
		t.Error("a topology of nothing")
	}
}

func TestClockOffset(t *testing.T) {
	t.Parallel()
	at := time.Unix(1_000_000, 0)
	stamp := func(d time.Duration) string { t := at.Add(d); return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }
	for _, c := range []struct {
		name       string
		begin, end string
		got        time.Duration // after sending
		want       string
	}{
		{"right", stamp(20 * time.Millisecond), stamp(60 * time.Millisecond), 80 * time.Millisecond, "0 (within 100)"},
		{"ahead by 1.2 s", stamp(1220 * time.Millisecond), stamp(1260 * time.Millisecond), 80 * time.Millisecond, "1200 (within 100)"},
		{"behind by an hour", stamp(-time.Hour), stamp(-time.Hour + 40*time.Millisecond), 80 * time.Millisecond, "-3600000 (within 100)"},
		{"slow line", stamp(200 * time.Millisecond), stamp(300 * time.Millisecond), 700 * time.Millisecond, "0 (within 1000)"},
		{"whole seconds", "1000000.%N", "1000000.%N", 80 * time.Millisecond, "0 (within 10000)"},
	} {
		if got, ok := clockOffset(at, at.Add(c.got), c.begin, c.end); !ok || got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	if _, ok := clockOffset(at, at, "", "x"); ok {
		t.Error("no stamps, and yet an offset")
	}
}
