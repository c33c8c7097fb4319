package server

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A server that somebody started by hand, below a virtual environment's
// interpreter: the one in PATH, a link to the system's.
func TestDescribe_WhatSomebodyElseStarted(t *testing.T) {
	b := newBench(t)
	dir := t.TempDir()
	bin := filepath.Join(dir, "venv", "bin")
	work := filepath.Join(dir, "a folder\nof two lines")
	for _, d := range []string{bin, work} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(b.python, filepath.Join(bin, "python3")); err != nil {
		t.Fatal(err)
	}
	logPath := filepath.Join(dir, "server.log")
	log, err := os.Create(logPath)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	port := freePort(t)
	cmd := exec.Command(filepath.Join(bin, "python3"), append([]string{b.script, strconv.Itoa(port), "--say"}, nasty...)...)
	cmd.Args[0] = "python3"
	cmd.Dir, cmd.Stdout = work, log
	cmd.Env = []string{"PATH=/nowhere:" + bin + ":/usr/bin", "NASTY=a\nb=c ", "EMPTY=", "CUDA_VISIBLE_DEVICES=GPU-1"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	pid := cmd.Process.Pid

	smi := t.TempDir()
	script := "#!/bin/sh\ncase $1 in *index*) printf '0, GPU-0\\n1, GPU-1\\n' ;; *) printf '" + strconv.Itoa(pid) + ", GPU-1, 4096, python3\\n1, GPU-0, 1, other\\n' ;; esac\n"
	if err := os.WriteFile(filepath.Join(smi, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, shell := range shells(t) {
		t.Run(filepath.Base(filepath.Dir(shell)), func(t *testing.T) {
			h := localShell(t, dir, []string{shell}, "PATH="+smi+":"+os.Getenv("PATH"))
			var p Process
			eventually(t, "it listens", func() bool {
				var err error
				if p, err = Describe(t.Context(), h, pid); err != nil {
					t.Fatal(err)
				}
				return slices.Equal(p.Listens, []int{port})
			})
			if want := append([]string{"python3", b.script, strconv.Itoa(port), "--say"}, nasty...); !slices.Equal(p.Argv, want) {
				t.Errorf("argv %q, want %q", p.Argv, want)
			}
			if p.EnvironHidden || p.Environ["NASTY"] != "a\nb=c " || p.Environ["CUDA_VISIBLE_DEVICES"] != "GPU-1" || len(p.Environ) < 4 {
				t.Errorf("environ %q", p.Environ)
			}
			if real, _ := filepath.EvalSymlinks(b.python); p.Program != filepath.Join(bin, "python3") || p.Exe != real || p.Cwd != work {
				t.Errorf("program %q exe %q cwd %q", p.Program, p.Exe, p.Cwd)
			}
			if p.Log != logPath || p.LogGone || p.UID != os.Getuid() || p.User == "" || p.Container != "" || p.Unit != "" {
				t.Errorf("log %q (gone %v), user %s (%d), container %q, unit %q", p.Log, p.LogGone, p.User, p.UID, p.Container, p.Unit)
			}
			if p.Identity.PID != pid || p.Identity.StartTicks == 0 || p.Identity.BootID == "" || len(p.Ancestors) == 0 || p.Ancestors[0] != os.Getpid() {
				t.Errorf("identity %+v, ancestors %v of %d", p.Identity, p.Ancestors, os.Getpid())
			}
			if p.Age < 0 || p.Age > time.Hour || p.Started.After(time.Now().Add(2*time.Second)) {
				t.Errorf("age %v, started %v", p.Age, p.Started)
			}
			if len(p.GPUs) != 1 || p.GPUs[0].GPU != "GPU-1" || p.GPUs[0].PID != pid || p.GPUs[0].MiB != "4096" || p.Devices["GPU-1"] != 1 {
				t.Errorf("GPUs %+v, devices %v", p.GPUs, p.Devices)
			}
			seen, err := Find(t.Context(), h, "standin.py", "no such word")
			if err != nil || !slices.ContainsFunc(seen, func(s Seen) bool { return s.PID == pid && s.Parent == os.Getpid() && slices.Equal(s.Argv, p.Argv) }) {
				t.Errorf("found %+v, %v", seen, err)
			}
		})
	}
	// On idle GPUs the list of processes is empty.
	idle := t.TempDir()
	if err := os.WriteFile(filepath.Join(idle, "nvidia-smi"), []byte("#!/bin/sh\ncase $1 in *index*) echo '0, GPU-0' ;; esac\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if p, err := Describe(t.Context(), localShell(t, dir, []string{"/bin/sh"}, "PATH="+idle+":"+os.Getenv("PATH")), pid); err != nil || len(p.GPUs) != 0 || len(p.Devices) != 1 {
		t.Errorf("GPUs %+v, devices %v, %v", p.GPUs, p.Devices, err)
	}
	// Seen from above it is a child, and its port is one of the whole tree.
	above, err := Describe(t.Context(), b.h, os.Getpid())
	if err != nil || !slices.Contains(above.Children, pid) || !slices.Contains(above.Listens, port) {
		t.Errorf("children %v, listens %v, %v", above.Children, above.Listens, err)
	}
	if err := os.Remove(logPath); err != nil {
		t.Fatal(err)
	}
	if p, err := Describe(t.Context(), b.h, pid); err != nil || p.Log != logPath || !p.LogGone {
		t.Errorf("log %q, gone %v, %v", p.Log, p.LogGone, err)
	}
}

func TestDescribe_NobodyIsGone(t *testing.T) {
	b := newBench(t)
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	zombie := cmd.Process.Pid // until it is waited for
	t.Cleanup(func() { cmd.Wait() })
	eventually(t, "it has ended", func() bool { return !living(zombie) })
	for _, pid := range []int{zombie, 0, -1, 1 << 28} {
		var gone *GoneError
		if _, err := Describe(t.Context(), b.h, pid); !errors.As(err, &gone) || gone.PID != pid || !errors.Is(err, ErrGone) {
			t.Errorf("pid %d: %v", pid, err)
		}
	}
}

// /proc answers to the number of a thread as to that of a process, but no signal
// and no list of processes does: its "stop" would prove nothing.
func TestDescribe_AThreadIsNoProcess(t *testing.T) {
	b := newBench(t)
	cmd := exec.Command(b.python, "-c", "import threading,time\nthreading.Thread(target=time.sleep,args=(60,)).start()")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	pid, thread := cmd.Process.Pid, 0
	eventually(t, "it has a second thread", func() bool {
		tasks, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(pid), "task"))
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			if n, err := strconv.Atoi(task.Name()); err == nil && n != pid {
				thread = n
			}
		}
		return thread != 0
	})
	for _, shell := range shells(t) {
		var gone *GoneError
		_, err := Describe(t.Context(), localShell(t, t.TempDir(), []string{shell}), thread)
		if !errors.As(err, &gone) || gone.Leader != pid || !strings.Contains(gone.Hint(), strconv.Itoa(pid)) {
			t.Errorf("%s: thread %d of %d: %v", shell, thread, pid, err)
		}
	}
}

// The folder of a process may be gone; made again, it serves a start as well.
func TestDescribe_AFolderThatWasDeletedByItsName(t *testing.T) {
	b := newBench(t)
	work := filepath.Join(t.TempDir(), "work (deleted)", "here")
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	cmd.Dir = work
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if err := os.Remove(work); err != nil {
		t.Fatal(err)
	}
	for _, shell := range shells(t) {
		h := localShell(t, t.TempDir(), []string{shell})
		p, err := Describe(t.Context(), h, cmd.Process.Pid)
		if err != nil || p.Cwd != work {
			t.Fatalf("%s: cwd %q, %v", shell, p.Cwd, err)
		}
		id := b.id("folder")
		if err := SaveProcess(t.Context(), h, b.state, id, p, ""); err != nil {
			t.Fatal(err)
		}
		if s, _, err := ReadSaved(t.Context(), h, b.state, id); err != nil || s.Cwd != work {
			t.Errorf("%s: saved cwd %q, %v", shell, s.Cwd, err)
		}
		if err := ForgetSaved(t.Context(), h, b.state, id); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSessionEnv_IsThatOfScripts(t *testing.T) {
	b := newBench(t)
	env, err := SessionEnv(t.Context(), b.h)
	if err != nil || env["SESSION"] != "1" || env["PATH"] != os.Getenv("PATH") {
		t.Errorf("%v, %v", env, err)
	}
}

func TestContainerOf_ReadsControlGroups(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for cgroup, want := range map[string][2]string{
		"0::/system.slice/docker-" + id + ".scope\n":                               {id, ""},
		"12:cpu:/docker/" + id + "\n0::/\n":                                        {id, ""},
		"0::/machine.slice/libpod-" + id + ".scope/container\n":                    {id, ""},
		"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope\n": {id, ""},
		"0::/system.slice/sglang.service\n":                                        {"", "sglang.service"},
		"0::/user.slice/user-1.slice/user@1.service/app.slice/vllm.service\n":      {"", "vllm.service"},
		"0::/user.slice/user-1.slice/user@1.service/init.scope\n":                  {"", ""},
		"0::/user.slice/user-1000.slice/session-3.scope\n":                         {"", ""},
		"0::/\n": {"", ""},
		"":       {"", ""},
		"0::/system.slice/" + strings.Repeat("g", 64) + ".scope\n": {"", ""},
	} {
		if got := [2]string{containerOf(cgroup), unitOf(cgroup)}; got != want {
			t.Errorf("%q: %q, want %q", cgroup, got, want)
		}
	}
}

func TestLogFile_IsTheFirstThatIsAFile(t *testing.T) {
	for fds, want := range map[[2]string]struct {
		file string
		gone bool
	}{
		{"/a/log", "/b"}: {"/a/log", false}, {"pipe:[1]", "/b"}: {"/b", false}, {"/dev/null", "/x (deleted)"}: {"/x", true}, {"/dev/pts/1", "socket:[2]"}: {"", false}, {"", ""}: {"", false},
	} {
		if file, gone := logFile(fds); file != want.file || gone != want.gone {
			t.Errorf("%q: %q %v", fds, file, gone)
		}
	}
}
