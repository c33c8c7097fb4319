package experiments

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Controller names this process so that another one on the same machine can
// tell whether it still lives: user-visible, one line.
func Controller() string {
	return fmt.Sprintf("%s/%s/%d/%s", hostname(), bootID(), os.Getpid(), startOf(os.Getpid()))
}

// ControllerGone says that the named controller is known to have ended: it ran
// on this machine and its process is not there any more, or the machine has
// started anew since. False when that cannot be known.
func ControllerGone(controller string) bool {
	parts := strings.Split(controller, "/")
	if len(parts) != 4 || parts[0] != hostname() {
		return false
	}
	if parts[1] != bootID() {
		return parts[1] != "" && bootID() != ""
	}
	pid, err := strconv.Atoi(parts[2])
	if err != nil || pid <= 0 {
		return false
	}
	if err := syscall.Kill(pid, 0); err == syscall.ESRCH {
		return true
	}
	return parts[3] != "" && startOf(pid) != "" && startOf(pid) != parts[3]
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return strings.ReplaceAll(name, "/", "_")
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
