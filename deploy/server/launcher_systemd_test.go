//go:build systemd

package server

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"specrun/remote"
	"specrun/remote/remotetest"
)

// What a machine without systemd lacks to run it in a container, beside its own
// /usr.
var systemdPackages = strings.Fields(`systemd libsystemd-shared libapparmor1 libip4tc2 libcryptsetup12 libkmod2 libfdisk1 libseccomp2
	libdevmapper1.02.1 dmsetup libjson-c5 libargon2-1 dbus-daemon libdbus-1-3 dbus-system-bus-common dbus-session-bus-common dbus-bin`)

// startSystemd runs a real systemd as the first process of a container, and returns
// the inside of it. Its packages are fetched once, into .cache.
func startSystemd(t *testing.T) *remote.Host {
	t.Helper()
	cache, err := filepath.Abs("../../.cache/systemd")
	must(t, err)
	shell := func(dir, script string) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-ec", script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	if _, err := os.Stat(cache + "/usr/lib/systemd/systemd"); err != nil {
		must(t, os.MkdirAll(cache, 0o755))
		shell(cache, "apt-get download -q "+strings.Join(systemdPackages, " ")+`
for d in *.deb; do dpkg -x "$d" .; done
mkdir -p usr/lib usr/bin usr/sbin
for d in lib bin sbin; do [ ! -d $d ] || { cp -a $d/. usr/$d/ && rm -rf $d; }; done`)
	}
	dir := t.TempDir()
	shell(dir, `mkdir usr root
mount -t overlay overlay -o lowerdir=`+cache+`/usr:/usr usr
mkdir -p root/proc root/sys root/dev root/root root/usr root/run root/tmp root/srv
cp -a `+cache+`/etc `+cache+`/var root/
mkdir -p root/etc/alternatives
for d in bin sbin lib lib64; do ln -s usr/$d root/$d; done
printf 'root:x:0:0:root:/root:/bin/sh\nmessagebus:x:100:100::/nonexistent:/usr/sbin/nologin\nserving:x:4321:4321::/tmp:/bin/sh\n' >root/etc/passwd
printf 'root:x:0:\nmessagebus:x:100:\nserving:x:4321:\n' >root/etc/group
: >root/etc/machine-id
tar -C root -cf root.tar .`)
	t.Cleanup(func() { exec.Command("umount", "-l", dir+"/usr").Run() })
	p := remotetest.StartPodman(t)
	p.Run("import", "-q", dir+"/root.tar", "localhost/systemd:1")
	p.Run("run", "-d", "--name", "sd", "--systemd=always", "--cap-add", "SYS_PTRACE", "--network", "none", "-v", dir+"/usr:/usr:ro", "-v", "/etc/alternatives:/etc/alternatives:ro",
		"localhost/systemd:1", "/lib/systemd/systemd")
	base := remote.Local(remote.LocalConfig{Env: append(os.Environ(), p.Env...)})
	t.Cleanup(func() { base.Close() })
	h, err := base.Container(t.Context(), remote.Container{Engine: "podman", Name: "sd"})
	must(t, err)
	t.Cleanup(func() { h.Close() })
	ok := false
	for end := time.Now().Add(time.Minute); !ok && time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		res, _ := h.Run(t.Context(), remote.Script{Name: "up", Text: "main() { systemctl is-system-running || :; }"})
		ok = strings.TrimSpace(string(res.Stdout)) == "running"
	}
	if !ok {
		t.Fatal("systemd does not run")
	}
	return h
}

// What TestUnit has with a manager of its own, with systemd itself: words and
// environment arrive, nothing is started anew, and the unit is what it was.
func TestSystemd_Unit(t *testing.T) {
	h := startSystemd(t)
	sh := func(command string) string {
		t.Helper()
		res, err := h.Run(t.Context(), remote.Script{Name: "sh", Text: "main() { " + command + "\n}"})
		if err != nil {
			t.Fatalf("%s: %v %s", command, err, res.Stderr)
		}
		return string(res.Stdout)
	}
	script, err := os.ReadFile("testdata/standin.py")
	must(t, err)
	must(t, h.Put(t.Context(), remote.File{Path: "/srv/standin.py", Data: script, Mode: 0o644}))
	for _, user := range []string{"root", "serving"} {
		t.Run(user, func(t *testing.T) {
			name := "sglang-" + user + ".service"
			unit := "[Unit]\nDescription=a server\n[Service]\nType=notify\nUser=" + user + "\nRestart=always\nRestartSec=0\nEnvironment=LAYER=unit FROM_UNIT=1\nExecStart=/bin/false\n"
			must(t, h.Put(t.Context(), remote.File{Path: "/etc/systemd/system/" + name, Data: []byte(unit), Mode: 0o644}))
			sh("systemctl daemon-reload")
			const properties = "-p ExecStart -p Type -p Restart -p Environment -p EnvironmentFiles -p DropInPaths -p StandardOutput -p WorkingDirectory -p WatchdogUSec"
			before := sh("systemctl cat " + name + "; systemctl show " + properties + " " + name)

			words := []string{"", "two words", `"`, `\`, "100%", "$HOME ${HOME} $$", "line\nbreak", "tab\t", "ä€", "~/y", ";", "#", "'"}
			record := "/tmp/record-" + user
			port := 8100 + len(user)
			l := Launch{ID: "l-" + user, Argv: append([]string{"/usr/bin/python3", "/srv/standin.py", itoa(port), "--record", record, "--"}, words...), Python: "/usr/bin/python3",
				Cwd: "/srv", StateDir: "/var/lib/specrun", Port: port, Unit: &Unit{Name: name},
				Env: map[string]string{"LAYER": "env", "HARD": "it's \"$HOME\" `x` \\ \n 100%", "EMPTY": ""}}
			id, err := Start(t.Context(), h, l)
			must(t, err)
			st, err := Look(t.Context(), h, l.StateDir, l.ID)
			must(t, err)
			ready, err := WaitReady(t.Context(), h, st, port, &plain{}, ReadyOptions{Timeout: time.Minute, Poll: 50 * time.Millisecond})
			if err != nil || ready.Listener.PID != id.PID {
				t.Fatalf("ready %+v, %v; log:\n%s", ready, err, sh("cat "+st.LogPath))
			}
			var got recorded
			must(t, json.Unmarshal([]byte(sh("cat "+record)), &got))
			if !slices.Equal(got.Argv, l.Argv[1:]) || got.Cwd != "/srv" || got.PID != id.PID || got.SID != id.SID {
				t.Errorf("recorded %+v, started %+v", got, id)
			}
			for variable, want := range map[string]string{"LAYER": "env", "FROM_UNIT": "1", "HARD": l.Env["HARD"], "EMPTY": "", "SPECRUN_RUN_ID": l.ID} {
				if v, ok := got.Env[variable]; !ok || v != want {
					t.Errorf("%s=%q, want %q", variable, v, want)
				}
			}
			if path := got.Env["PATH"]; !strings.HasPrefix(path, "/usr/bin:") || !strings.Contains(path, "/sbin") {
				t.Errorf("PATH=%q", path)
			}
			if shown := sh("systemctl show " + properties + " " + name); strings.Contains(shown, "it's") {
				t.Errorf("the environment can be read by everybody: %s", shown)
			}
			var busy *UnitBusyError
			other := l
			other.ID, other.Port = "other-"+user, 0
			if _, err := Start(t.Context(), h, other); !errors.As(err, &busy) || busy.PID != id.PID {
				t.Errorf("a second launch in the unit: %v", err)
			}
			// Whoever restarts the unit has the launch's server again.
			sh("systemctl restart " + name)
			again := strings.TrimSpace(sh("systemctl show -p MainPID --value " + name))
			if env := sh("tr '\\0' '\\n' </proc/" + again + "/environ"); again == itoa(id.PID) || !strings.Contains(env, "\nSPECRUN_RUN_ID="+l.ID+"\n") {
				t.Errorf("restarted as %s with %q", again, env)
			}
			proof, err := Stop(t.Context(), h, l.StateDir, l.ID, StopOptions{Grace: 20 * time.Second})
			if err != nil || !proof.Terminated || len(proof.Killed) > 0 || proof.Signal != 15 {
				t.Errorf("proof %+v, %v", proof, err)
			}
			if after := sh("systemctl cat " + name + "; systemctl show " + properties + " " + name); after != before {
				t.Errorf("the unit is now\n%s\nwas\n%s", after, before)
			}
			if left := sh("find /run/systemd /etc/systemd -name '*specrun*'; ps ax | grep '[s]tandin' || :"); left != "" {
				t.Errorf("left: %s", left)
			}

			// An end of its own is an end.
			l.ID = "dies-" + user
			id, err = Start(t.Context(), h, l)
			must(t, err)
			sh("kill -s KILL " + itoa(id.PID))
			eventually(t, "its end is seen", func() bool {
				st, err = Look(t.Context(), h, l.StateDir, l.ID)
				must(t, err)
				return st.Phase == Exited && st.Signal == 9
			})
			if pid := strings.TrimSpace(sh("systemctl show -p MainPID --value " + name)); pid != "0" {
				t.Errorf("started anew as %s", pid)
			}
			if _, err := Stop(t.Context(), h, l.StateDir, l.ID, StopOptions{}); err != nil {
				t.Error(err)
			}
			if after := sh("systemctl cat " + name + "; systemctl show " + properties + " " + name); after != before {
				t.Errorf("the unit is now\n%s\nwas\n%s", after, before)
			}
		})
	}
}
