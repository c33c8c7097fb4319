package deploy

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"specrun/remote"
)

// taker is one script that takes a lock, stops itself at given places, and
// holds the lock until its input ends.
type taker struct {
	cmd   *exec.Cmd
	input interface{ Close() error }
	lines chan string
	// stopped: it was seen to have stopped itself.
	stopped bool
}

// takerScript stops before each line of lock.sh that begins with one of stops,
// once for each of them.
func takerScript(t *testing.T, state string, stops []string) string {
	t.Helper()
	body := shell("common.sh", "lock.sh")
	for i, stop := range stops {
		at := -1
		for n, l := range strings.Split(body, "\n") {
			if strings.HasPrefix(strings.TrimSpace(l), stop) && !strings.HasSuffix(l, "() {") {
				at = n
			}
		}
		if at < 0 {
			t.Fatalf("lock.sh has no line %q", stop)
		}
		body = insert(body, at, 0, fmt.Sprintf("[ -n \"$stop%d\" ] || { stop%d=1; echo stop; kill -STOP $$; }", i, i))
	}
	quoted, err := remote.Quote(state)
	if err != nil {
		t.Fatal(err)
	}
	return "state=" + quoted + "\ntake=no\nuser=u\ntx=\nleftovers=\nheld=\norphans=\n" + body + `
young=-1
host_identity
lock_take install-x "$state"
echo got
read -r end
lock_release
echo released
`
}

func startTaker(t *testing.T, script string) *taker {
	t.Helper()
	k := &taker{cmd: exec.Command("/bin/sh", "-c", script), lines: make(chan string, 16)}
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := k.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	k.input = in
	go func() {
		defer close(k.lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			k.lines <- s.Text()
		}
	}()
	t.Cleanup(k.end)
	return k
}

func (k *taker) end() {
	syscall.Kill(-k.cmd.Process.Pid, syscall.SIGKILL)
	k.cmd.Wait()
}

// step lets it go on to its next stop, its lock or its refusal, and says which.
func (k *taker) step(t *testing.T) string {
	t.Helper()
	pid := k.cmd.Process.Pid
	if k.stopped { // else the signal could meet a stop that nobody has seen
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	limit := time.After(20 * time.Second)
	for {
		select {
		case l, ok := <-k.lines:
			switch {
			case !ok:
				return "ended"
			case l == "stop":
				for deadline := time.Now().Add(20 * time.Second); stateOf(pid) != "T"; time.Sleep(100 * time.Microsecond) {
					if time.Now().After(deadline) {
						t.Fatalf("taker %d does not stop", pid)
					}
				}
				k.stopped = true
				return "stopped"
			case l == "got", strings.HasPrefix(l, "error "):
				return l
			}
		case <-limit:
			t.Fatalf("taker %d does nothing", pid)
		}
	}
}

// interleavings lists all orders of n actors with k steps each.
func interleavings(n, k int) [][]int {
	var all [][]int
	left := slices.Repeat([]int{k}, n)
	var walk func(order []int)
	walk = func(order []int) {
		if len(order) == n*k {
			all = append(all, slices.Clone(order))
			return
		}
		for i := range n {
			if left[i] > 0 {
				left[i]--
				walk(append(order, i))
				left[i]++
			}
		}
	}
	walk(nil)
	return all
}

const (
	stopToMake = `mkdir "$mine"`      // between judging and taking
	stopToOwn  = `printf '%s\n' "$$"` // between taking and saying who one is
	stopToLook = `lock_look`          // before looking again
)

// race runs three takers of a stale lock in one order of steps and checks that
// there are never two holders, and in the end one unless all gave way.
func race(t *testing.T, stops []string, order []int) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	stale := filepath.Join(state, "locks", "install-x", "lock.1")
	if err := os.MkdirAll(stale, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"pid": "999999999", "ticks": "1", "session": "1", "host": "x", "boot": "x"} {
		if name == "host" || name == "boot" {
			continue
		}
		if err := os.WriteFile(filepath.Join(stale, name), []byte(value+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	whoami := "host_identity\nprintf '%s\\n' \"$host_id\" >host\nprintf '%s\\n' \"$boot_id\" >boot\n"
	cmd := exec.Command("/bin/sh", "-c", shell("common.sh")+whoami)
	cmd.Dir = stale
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	script := takerScript(t, state, stops)
	takers := make([]*taker, 3)
	over := make([]string, 3)
	holders := 0
	for _, i := range order {
		if over[i] != "" {
			continue
		}
		if takers[i] == nil {
			takers[i] = startTaker(t, script)
		}
		got := takers[i].step(t)
		if got == "stopped" {
			continue
		}
		over[i] = got
		if got == "got" {
			holders++
		}
		if holders > 1 {
			t.Fatalf("order %v: two holders", order)
		}
	}
	for i, k := range takers { // those with steps left, one after the other
		for over[i] == "" {
			if got := k.step(t); got != "stopped" {
				over[i] = got
				if got == "got" {
					holders++
				}
			}
		}
	}
	if holders != 1 {
		t.Fatalf("order %v: %d holders: %v", order, holders, over)
	}
	for _, k := range takers {
		k.end()
	}
}

func TestLock_ThreeTakersOfAStaleLockNeverBothHoldIt(t *testing.T) {
	t.Parallel()
	all := interleavings(3, 2)
	for i, order := range all {
		if i%6 == 0 {
			race(t, []string{stopToMake}, order)
		}
	}
	// Stopped at three places each: a few of the 34,650 orders, others each time.
	for range 8 {
		order := slices.Repeat([]int{0, 1, 2}, 4)
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		race(t, []string{stopToMake, stopToOwn, stopToLook}, order)
	}
}
