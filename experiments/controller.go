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
func Controller() string {
	return controllerName(os.Getpid(), hostname(), bootID(), startOf(os.Getpid()))
}

func controllerName(pid int, host, boot, start string) string {
	return fmt.Sprintf("pid %d on %s [%s %s]", pid, host, boot, start)
}

var controllerText = regexp.MustCompile(`^pid ([0-9]+) on (\S+) \[(\S*) (\S*)\]$`)

// ControllerGone says that the named controller is known to have ended: it ran
// on this machine and its process is not there any more, or the machine has
// started anew since. False when that cannot be known.
func ControllerGone(controller string) bool {
	m := controllerText.FindStringSubmatch(controller)
	if m == nil || m[2] != hostname() {
		return false
	}
	boot, start := m[3], m[4]
	if boot != bootID() {
		return boot != "" && bootID() != ""
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

// startOf is when a process began, in ticks since boot; "" when unknown, and
// "zombie" for one that has ended but was not collected.
func startOf(pid int) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, ok := strings.Cut(string(b), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 20 {
		return ""
	}
	if fields[0] == "Z" {
		return "zombie"
	}
	return fields[19]
}
