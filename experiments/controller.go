package experiments

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// Controller names this process so that another one on the same machine can
// tell whether it still lives: user-visible, one line.
func Controller() string { return thisProcess().String() }

// process is what must be equal for a pid to mean the same process.
type process struct {
	pid           int
	host, machine string
	boot, start   string // of the machine, and of the process in ticks since then
	namespace     string // of pids
}

func (p process) String() string {
	return fmt.Sprintf("pid %d on %s [%s %s %s %s]", p.pid, p.host, p.boot, p.start, p.machine, p.namespace)
}

func thisProcess() process {
	return process{pid: os.Getpid(), host: hostname(), machine: machineID(), boot: bootID(), start: startOf(os.Getpid()), namespace: pidNamespace()}
}

var controllerText = regexp.MustCompile(`^pid ([0-9]+) on (\S+) \[(\S*) (\S*) (\S*) (\S*)\]$`)

// ControllerGone says that the named controller is known to have ended: it ran
// on this machine and its process is not there any more, or the machine has
// started anew since. False when that cannot be known, as of a pid of another
// container.
func ControllerGone(controller string) bool {
	m := controllerText.FindStringSubmatch(controller)
	here := thisProcess()
	if m == nil || m[2] != here.host || m[5] != here.machine {
		return false
	}
	boot, start := m[3], m[4]
	if boot != here.boot {
		return boot != "" && here.boot != ""
	}
	if m[6] != here.namespace {
		return false
	}
	pid, err := strconv.Atoi(m[1])
	if err != nil || pid <= 0 {
		return false
	}
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	return start != "" && startOf(pid) != "" && startOf(pid) != start
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(name), "_")
}

// bootID is "" where the system does not tell (darwin).
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// machineID is a short hash of what tells machines of one name apart; "" where
// there is nothing.
func machineID() string {
	for _, file := range []string{"/etc/machine-id", "/var/lib/dbus/machine-id"} {
		if b, err := os.ReadFile(file); err == nil && len(strings.TrimSpace(string(b))) > 0 {
			return digest([]byte(strings.TrimSpace(string(b))))[:12]
		}
	}
	return ""
}

// pidNamespace is "" where there are none.
func pidNamespace() string {
	link, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return strings.Trim(strings.TrimPrefix(link, "pid:"), "[]")
}

// startOf is when a process began, in ticks since boot; "" when unknown, and
// "zombie" for one that has ended but was not collected.
func startOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	return startIn(string(b))
}

// startIn reads a process's stat; its name may hold anything, so the fields
// count from behind the last bracket.
func startIn(stat string) string {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 20 {
		return ""
	}
	if fields[0] == "Z" {
		return "zombie"
	}
	return fields[19]
}
