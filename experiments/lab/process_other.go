//go:build !linux

package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"time"
)

var errSystem = errors.New("the practice host needs Linux: it tells its processes apart by /proc")

func supported() error { return errSystem }

// Process is one process, told apart from a later one with the same number.
type Process struct {
	BootID     string `json:"boot_id"`
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"`
}

func self() (Process, error)                                      { return Process{}, errSystem }
func identify(int) (Process, error)                               { return Process{}, errSystem }
func (p Process) alive() bool                                     { return false }
func (p Process) end(context.Context, time.Duration) error        { return errSystem }
func endAll(context.Context, string, time.Duration) error         { return errSystem }
func lockFile(string) (f *os.File, held bool, err error)          { return nil, false, errSystem }
func await(context.Context, time.Duration, func() bool) (ok bool) { return false }

func detach(*exec.Cmd) {}
