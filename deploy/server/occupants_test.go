package server

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
)

// One look finds a server that somebody started, its worker on the GPUs, and what
// holds memory beside it, be it hidden in another container.
func TestFindOccupants_ServersAndHoldersOfGPUs(t *testing.T) {
	b := newBench(t)
	dir, port := t.TempDir(), freePort(t)
	cmd := exec.Command(b.python, append([]string{b.script, strconv.Itoa(port)}, nasty...)...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "NOTE=a\nSPECRUN_RUN_ID=wrong", "SPECRUN_RUN_ID=k3v7"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	pid, holder := cmd.Process.Pid, sleeper(t)
	smi := t.TempDir()
	script := "#!/bin/sh\ncase $1 in *index*) printf '0, GPU-0, 70000\\n1, GPU-1, [N/A]\\n' ;; *) printf '" + strconv.Itoa(pid) + ", GPU-0, 4096, python3 x\\n" +
		strconv.Itoa(holder) + ", GPU-1, [N/A], sleep\\n4194999, GPU-1, 7, /other\\n' ;; esac\n"
	if err := os.WriteFile(filepath.Join(smi, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, shell := range shells(t) {
		t.Run(filepath.Base(filepath.Dir(shell)), func(t *testing.T) {
			h := localShell(t, dir, []string{shell}, "PATH="+smi+":"+os.Getenv("PATH"))
			var found Occupants
			at := func(pid int) Occupant {
				i := slices.IndexFunc(found.Processes, func(p Occupant) bool { return p.PID == pid })
				if i < 0 {
					return Occupant{}
				}
				return found.Processes[i]
			}
			eventually(t, "it listens", func() bool {
				var err error
				if found, err = FindOccupants(t.Context(), h, "(^|/)(standin[.]py|no-such-word)$"); err != nil {
					t.Fatal(err)
				}
				return slices.Equal(at(pid).Listens, []int{port})
			})
			p := at(pid)
			if want := append([]string{b.python, b.script, strconv.Itoa(port)}, nasty...); !slices.Equal(p.Argv, want) {
				t.Errorf("argv %q, want %q", p.Argv, want)
			}
			if p.Launch != "k3v7" || p.UID != os.Getuid() || p.User == "" || p.Container != "" || p.Age < 0 || p.Age > time.Hour || len(p.Ancestors) == 0 || p.Ancestors[0] != os.Getpid() {
				t.Errorf("%+v", p)
			}
			if o := at(holder); !slices.Equal(o.Argv, []string{"sleep", "600"}) || o.Launch != "" || o.Listens != nil {
				t.Errorf("the other holder: %+v", o)
			}
			if found.UID != os.Getuid() || !slices.Equal(found.Cards, []Card{{0, "GPU-0", 70000}, {1, "GPU-1", -1}}) {
				t.Errorf("uid %d, cards %+v", found.UID, found.Cards)
			}
			want := []GPUHolder{
				{GPU: "GPU-0", PID: pid, MiB: "4096", User: p.User, Command: "python3 x"},
				{GPU: "GPU-1", PID: holder, MiB: "[N/A]", User: p.User, Command: "sleep"},
				{GPU: "GPU-1", PID: 4194999, MiB: "7", User: "?", Command: "/other"},
			}
			if !slices.Equal(found.Holders, want) {
				t.Errorf("holders %+v, want %+v", found.Holders, want)
			}
		})
	}
	// Without GPUs, and with idle ones.
	for name, text := range map[string]string{"no driver": "exit 9", "idle": "case $1 in *index*) echo '0, GPU-0, 3' ;; esac"} {
		idle := t.TempDir()
		if err := os.WriteFile(filepath.Join(idle, "nvidia-smi"), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		found, err := FindOccupants(t.Context(), localShell(t, dir, []string{"/bin/sh"}, "PATH="+idle+":"+os.Getenv("PATH")), "^no-such-word$")
		if err != nil || len(found.Processes)+len(found.Holders) != 0 || len(found.Cards) != map[string]int{"idle": 1}[name] {
			t.Errorf("%s: %+v, %v", name, found, err)
		}
	}
}
