//go:build integration || soak

package main

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// claims are what one try of a measurement has to show.
type claims struct {
	t     *testing.T
	wrong []string
}

// measured lets a measurement be wrong twice. Other work on the machine now and
// then disturbs one; what specrun or the practice host does wrong is wrong in all
// three.
func measured(t *testing.T, try func(c *claims)) {
	t.Helper()
	for left := 2; ; left-- {
		c := &claims{t: t}
		try(c)
		wrong := strings.Join(c.wrong, "\n")
		switch {
		case wrong == "":
			return
		case left == 0 || t.Failed():
			t.Error(wrong)
			return
		}
		t.Logf("measured once more: %s", wrong)
	}
}

func (c *claims) errorf(format string, args ...any) {
	c.wrong = append(c.wrong, fmt.Sprintf(format, args...))
}

// within says by which share of what is wanted a number may be off.
func (c *claims) within(what string, got, want, tolerance float64) {
	c.t.Helper()
	c.t.Logf("%s: %.4f, wanted %.4f", what, got, want)
	if !(math.Abs(got-want) <= tolerance*math.Abs(want)) { // not NaN either
		c.errorf("%s is %.4f, the settings imply %.4f", what, got, want)
	}
}
