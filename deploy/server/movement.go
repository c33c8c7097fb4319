package server

import (
	"fmt"
	"strings"
	"time"
)

const (
	// Into a silence of the log, what the processes do is looked at after
	// closeFirst, then after every tenth of the silence, at least every closeRarely.
	closeFirst  = 2 * time.Second
	closeRarely = 5 * time.Second

	// Less than this is what a process does that only waits: threads that look
	// round, a watchdog. Of one core, and bytes a second.
	idleCPU   = 0.01
	idleBytes = 16 << 10
)

// Movement is what the processes of a launch are seen to do, from close look to
// close look.
type Movement struct {
	seen  bool
	base  Used      // at the last time that something went on
	baseT time.Time // when that was
	prev  Used      // at the last look, for the rates shown
	prevT time.Time
	doing string
	ended []EndedChild
}

// Last is when something was seen last, given the time of the log's last byte.
func (m *Movement) Last(logByte time.Time) time.Time {
	if m.seen && m.baseT.After(logByte) {
		return m.baseT
	}
	return logByte
}

// Doing is what they do, for people.
func (m *Movement) Doing() string { return m.doing }

// See takes a close look. The first one is only what later ones are compared
// with: whatever was used before it may have been used while the log still spoke.
func (m *Movement) See(st State, now time.Time) {
	m.ended = st.Ended
	if st.Used == nil {
		m.doing = "no process of it is seen"
		return
	}
	u := *st.Used
	if !m.seen {
		m.seen, m.base, m.baseT, m.prev, m.prevT = true, u, now, u, now
		m.doing = "watching its processes"
		return
	}
	m.doing = rates(m.prev, u, now.Sub(m.prevT))
	m.prev, m.prevT = u, now
	if goesOn(m.base, u, now.Sub(m.baseT)) {
		m.base, m.baseT = u, now
	}
}

// goesOn says whether more went on between two looks than in processes that wait.
// Counters that fell are of processes that have ended: something went on then.
func goesOn(a, b Used, d time.Duration) bool {
	if b.Processes != a.Processes || b.GPUMiB != a.GPUMiB || b.CPU < a.CPU || b.Read < a.Read || b.Disk < a.Disk || b.Written < a.Written {
		return true
	}
	cpu := b.CPU - a.CPU
	moved := max(b.Read-a.Read, b.Disk-a.Disk) + b.Written - a.Written
	return cpu >= max(time.Second/ticksPerSecond, time.Duration(idleCPU*float64(d))) && cpu > 0 ||
		float64(moved) > idleBytes*d.Seconds() && moved > 4096
}

// rates says what went on, for people.
func rates(a, b Used, d time.Duration) string {
	if d <= 0 {
		return "nothing"
	}
	var parts []string
	if read := float64(max(b.Read-a.Read, b.Disk-a.Disk)) / d.Seconds(); read > idleBytes {
		parts = append(parts, "reads "+bytesPerSecond(read))
	}
	if written := float64(b.Written-a.Written) / d.Seconds(); written > idleBytes {
		parts = append(parts, "writes "+bytesPerSecond(written))
	}
	if cores := float64(b.CPU-a.CPU) / float64(d); cores > idleCPU {
		parts = append(parts, fmt.Sprintf("%.1f cores busy", cores))
	}
	if b.GPUMiB != a.GPUMiB {
		parts = append(parts, fmt.Sprintf("GPU memory %+.1f GiB", float64(b.GPUMiB-a.GPUMiB)/1024))
	}
	if len(parts) == 0 {
		parts = append(parts, "its processes do nothing")
	}
	if b.GPUMiB > 0 {
		parts = append(parts, fmt.Sprintf("%.1f GiB on GPUs", float64(b.GPUMiB)/1024))
	}
	return strings.Join(parts, ", ")
}

func bytesPerSecond(n float64) string {
	for _, unit := range []string{"B", "kB", "MB"} {
		if n < 1000 {
			return fmt.Sprintf("%.3g %s/s", n, unit)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g GB/s", n)
}
