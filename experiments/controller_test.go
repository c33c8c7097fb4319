package experiments

import "testing"

func TestController_KnowsTheDead(t *testing.T) {
	t.Parallel()
	if self := Controller(); ControllerGone(self) {
		t.Errorf("%s is said to be gone", self)
	}
	for _, id := range []string{"", "pid 1 on elsewhere [b 2 m 4]", "a/b/c/d"} {
		if ControllerGone(id) {
			t.Errorf("%q is said to be gone", id)
		}
	}
	if who := deadController(); !ControllerGone(who) {
		t.Errorf("%s is said to live", who)
	}
	// A pid of another container, or of a machine of the same name, says nothing.
	elsewhere := thisProcess()
	elsewhere.pid, elsewhere.start = 1<<22+1, "1"
	namesake := elsewhere
	elsewhere.namespace, namesake.machine = "1", "another"
	for _, p := range []process{elsewhere, namesake} {
		if ControllerGone(p.String()) {
			t.Errorf("%s is said to be gone", p)
		}
	}
}

// deadController names one on this machine that has ended.
func deadController() string {
	p := thisProcess()
	p.pid, p.start = 1<<22+1, "1" // above the highest pid
	return p.String()
}

func TestController_ReadsTheStartBehindAnyName(t *testing.T) {
	t.Parallel()
	fields := " S 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 777 21"
	for _, name := range []string{"(sh)", "(a) S 1 (b)", "(x) y) z)"} {
		if got := startIn("1 " + name + fields); got != "777" {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := startIn("1 (sh) Z" + fields[2:]); got != "zombie" {
		t.Errorf("a zombie: %q", got)
	}
}
