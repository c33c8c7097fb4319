package lab

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

var (
	//go:embed hostbin/nvidia-smi
	smi []byte
	//go:embed hostbin/answer.awk
	smiAnswers []byte
)

// throttlePeriod is what site/specrun_lab/gpu.py has: seconds from one
// beginning of throttling to the next.
const throttlePeriod = 0.7

// ThrottleReasons are what throttle_reason may be: nvidia-smi's names.
func ThrottleReasons() []string {
	return []string{"sw_power_cap", "hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown"}
}

func (s Settings) validateCards() error {
	for name, v := range map[string]float64{"gpu_clock_mhz": s.Clock, "gpu_power_w": s.Power, "gpu_temp_c": s.Temperature} {
		if !(v > 0) || math.IsInf(v, 0) {
			return fmt.Errorf("lab setting %s: %v is not a usable number", name, v)
		}
	}
	if s.Cards < 0 || s.Cards > 16 {
		return fmt.Errorf("lab setting gpus: %d is not from 0 to 16", s.Cards)
	}
	for name, text := range map[string]string{"gpu_name": s.CardName, "gpu_driver": s.Driver} {
		if !line(text) {
			return fmt.Errorf("lab setting %s: %q is not one line of text", name, text)
		}
	}
	if !(s.Throttle >= 0 && s.Throttle <= 100) {
		return fmt.Errorf("lab setting throttle_pct: %v is not from 0 to 100", s.Throttle)
	}
	if !(s.ThrottleSlower >= 0) || math.IsInf(s.ThrottleSlower, 0) {
		return fmt.Errorf("lab setting throttle_slower_pct: %v is not a usable number", s.ThrottleSlower)
	}
	if !slices.Contains(ThrottleReasons(), s.ThrottleReason) {
		return fmt.Errorf("lab setting throttle_reason: %q is unknown: there are %s", s.ThrottleReason, strings.Join(ThrottleReasons(), ", "))
	}
	for i, n := range s.Neighbours {
		if n.Card < 0 || n.Card >= s.Cards || n.MiB < 0 || !line(n.Name) {
			return fmt.Errorf("lab setting neighbours: number %d: needs the gpu (there are %d), mib and name", i+1, s.Cards)
		}
	}
	return nil
}

func line(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' })
}

// writeSettings makes these settings those of the practice host: servers read
// them when they start, nvidia-smi with each call. Counting of launches begins anew.
func (l layout) writeSettings(s Settings) error {
	if err := s.write(l.settings()); err != nil {
		return err
	}
	if err := os.Remove(l.path("launches")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("practice host: %w", err)
	}
	return l.writeSMI(s)
}

// writeSMI writes nvidia-smi and what it reads.
func (l layout) writeSMI(s Settings) error {
	cards := "export"
	for _, v := range [][2]string{
		{"CARDS", strconv.Itoa(s.Cards)}, {"NAME", s.CardName}, {"DRIVER", s.Driver}, {"CLOCK", number(s.Clock)},
		{"POWER", number(s.Power)}, {"TEMPERATURE", number(s.Temperature)}, {"THROTTLE", number(s.Throttle)},
		{"SLOWER", number(s.ThrottleSlower)}, {"REASON", s.ThrottleReason}, {"PERIOD", number(throttlePeriod)},
	} {
		cards += " " + v[0] + "='" + strings.ReplaceAll(v[1], "'", `'\''`) + "'"
	}
	for _, d := range []string{l.path("gpu", "apps"), l.bin()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return fmt.Errorf("practice host: %w", err)
		}
	}
	for _, f := range []struct {
		path string
		text []byte
		mode fs.FileMode
	}{
		{l.path("gpu", "cards"), []byte(cards + "\n"), 0o600},
		{l.path("gpu", "answer.awk"), smiAnswers, 0o600},
		{filepath.Join(l.bin(), "nvidia-smi"), smi, 0o700},
	} {
		if err := replaceFile(f.path, f.text, f.mode); err != nil {
			return err
		}
	}
	return l.setNeighbours(s.Neighbours)
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
