//go:build integration || soak

package main

import (
	"fmt"
	"strings"
	"testing"

	"specrun/experiments/lab"
)

// testSideBySide: sweeps on GPUs of their own that want the same patch set run at
// once and say so with their results; who wants taken GPUs is refused, or waits its
// turn; the last one puts the files back.
func testSideBySide(t *testing.T, bin string) {
	u := newUser(t, bin)
	h := u.startLab(func(s *lab.Settings) { fast(s); s.Cards = 8 })
	on := func(name, gpus string) string {
		return u.write(name, strings.Replace(string(lab.Spec()), "port: auto\n", "port: auto\n  gpus: "+gpus+"\n", 1))
	}
	left, right, all := on("left.yaml", "[0-3]"), on("right.yaml", "[4-7]"), on("all.yaml", "all")
	sweep := func(spec, store string, more ...string) *running {
		return u.start(append([]string{"sweep", "-f", spec, "steps=2", "--no-baseline", "--host", "lab", "--store", store}, more...)...)
	}

	one := sweep(left, "one.db", "--rounds", "4")
	one.until("[1/4]")
	two := sweep(right, "two.db", "--rounds", "3")
	refused := u.run("run", "-f", all, "--host", "lab", "--store", "refused.db")
	if refused.code != 6 || !strings.Contains(refused.stderr, fmt.Sprintf("pid %d on ", one.Process.Pid)) || !strings.Contains(refused.stderr, "--wait") {
		t.Errorf("want exit 6, who has the GPUs, and how to wait: %s", refused)
	}
	three := sweep(all, "three.db", "--rounds", "1", "--wait", "5m")
	three.until("waiting for gpu-")
	four := sweep(left, "four.db", "--rounds", "1", "--wait", "5m")
	four.until("waiting for gpu-")
	var places []string
	for _, l := range u.does(0, "lock", "status", "--host", "lab", "--json").lines(t, "lease") {
		if l["state"] == "in the queue" {
			places = append(places, fmt.Sprint(l["controller"]))
		}
	}
	order := []*running{one, two, three, four}
	at := -1
	for i, r := range order {
		for n, p := range places {
			if strings.HasPrefix(p, fmt.Sprintf("pid %d on ", r.Process.Pid)) {
				if n < at {
					t.Errorf("number %d of those who came is not behind the others: %q", i+1, places)
				}
				at = n
			}
		}
	}
	if at != len(places)-1 || len(places) < 2 {
		t.Errorf("the queue: %q", places)
	}
	for i, r := range order {
		if a := r.end(); a.code != 0 {
			t.Errorf("sweep %d: %s", i+1, a)
		}
	}
	for store, shared := range map[string]bool{"one.db": true, "two.db": true, "three.db": false} {
		labelled := 0
		runs := u.does(0, "list", "--runs", "--json", "--store", store).lines(t, "run")
		for _, run := range runs {
			if strings.Contains(fmt.Sprint(run["labels"]), "shared-host") {
				labelled++
			}
		}
		if (labelled > 0) != shared {
			t.Errorf("%s: %d of %d runs have the label shared-host", store, labelled, len(runs))
		}
	}
	u.leftAlone(h, freePort(t))
}
