package experiments

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"specrun/experiments/record"
)

// cardRows are nvidia-smi's answer for all GPUs.
type cardRows struct {
	fields []string
	rows   [][]string
}

// cardKeys name what nvidia-smi tells.
var cardKeys = map[string][2]string{ // field -> key, unit
	"driver_version": {"driver", ""}, "memory.total": {"memory", " MiB"}, "vbios_version": {"vbios", ""},
	"power.limit": {"power_limit", " W"}, "power.default_limit": {"power_limit_default", " W"},
	"clocks.max.sm": {"max_clock", " MHz"}, "clocks.max.memory": {"max_memory_clock", " MHz"},
	"clocks.applications.graphics": {"applied_clock", " MHz"}, "clocks.applications.memory": {"applied_memory_clock", " MHz"},
	"ecc.mode.current": {"ecc", ""}, "persistence_mode": {"persistence", ""}, "mig.mode.current": {"mig", ""}, "compute_mode": {"compute_mode", ""},
	"pcie.link.gen.max": {"pcie_generation_max", ""}, "pcie.link.width.max": {"pcie_width_max", ""}, "pcie.link.width.current": {"pcie_width", ""},
}

// facts has name and UUID of each GPU, and of the rest one fact for all GPUs:
// its value, or which GPU has which.
func (c cardRows) facts() []record.Fact {
	index := slices.Index(c.fields, "index")
	if index < 0 {
		return nil
	}
	var out facts
	values := make([]map[string][]string, len(c.fields)) // value -> GPUs
	order := make([][]string, len(c.fields))
	cards := 0
	for _, row := range c.rows {
		if len(row) != len(c.fields) {
			continue
		}
		cards++
		gpu := strings.TrimSpace(row[index])
		for i, field := range c.fields {
			value := strings.TrimSpace(row[i])
			switch {
			case i == index || notTold(value):
			case field == "name" || field == "uuid":
				out.add("gpu", gpu+" "+field, value)
			default:
				if values[i] == nil {
					values[i] = map[string][]string{}
				}
				if values[i][value] == nil {
					order[i] = append(order[i], value)
				}
				values[i][value] = append(values[i][value], gpu)
			}
		}
	}
	for i, field := range c.fields {
		known, ok := cardKeys[field]
		if !ok || len(order[i]) == 0 {
			continue
		}
		parts := make([]string, len(order[i]))
		for n, value := range order[i] {
			parts[n] = value + known[1]
			if len(values[i][value]) < cards {
				parts[n] = "GPU " + strings.Join(values[i][value], ",") + ": " + parts[n]
			}
		}
		out.add("gpu", known[0], strings.Join(parts, "; "))
	}
	return out.list
}

// notTold is how nvidia-smi says that it has no such value.
func notTold(v string) bool {
	return v == "" || strings.HasPrefix(v, "[") || v == "N/A" || v == "ERR!"
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

// topology is the matrix of links between GPUs: in short, and as a hash of the
// whole, network cards and affinities included.
func topology(lines []string) []record.Fact {
	var matrix [][]string
	var whole strings.Builder
	for _, line := range lines {
		line = strings.TrimSpace(escapes.ReplaceAllString(line, ""))
		if strings.HasPrefix(line, "Legend") {
			break
		}
		cells := strings.Fields(line)
		if len(cells) == 0 {
			continue
		}
		whole.WriteString(strings.Join(cells, " ") + "\n")
		if strings.HasPrefix(cells[0], "GPU") {
			matrix = append(matrix, cells)
		}
	}
	// The first line names the columns.
	if len(matrix) < 2 {
		return nil
	}
	gpus := len(matrix) - 1
	links := map[string]int{}
	for i, row := range matrix[1:] {
		for j := i + 1; j < gpus && j+1 < len(row); j++ {
			links[row[j+1]]++
		}
	}
	var parts []string
	for _, link := range sortedKeys(links) {
		parts = append(parts, fmt.Sprintf("%d pairs by %s", links[link], link))
	}
	if len(parts) == 0 {
		parts = []string{"one GPU"}
	}
	return []record.Fact{{Group: "gpu", Key: "topology", Value: fmt.Sprintf("%s; sha256 %.12x", strings.Join(parts, ", "), sha256.Sum256([]byte(whole.String())))}}
}

// usersFacts names those who hold memory on the GPUs and are not the server.
func usersFacts(users [][]string) []record.Fact {
	var out []string
	for _, u := range users {
		text := u[3]
		if u[1] != "" {
			text = u[1] + ": " + text
		}
		if !notTold(u[2]) {
			text += ", " + u[2] + " MiB"
		}
		out = append(out, text+" (pid "+u[0]+")")
	}
	if len(out) == 0 {
		return nil
	}
	slices.Sort(out)
	return []record.Fact{{Group: "gpu", Key: "other_users", Value: strings.Join(slices.Compact(out), "; ")}}
}

// clockOffset is by how much the host's clock is ahead of ours, in ms: not more
// than from our sending to its first stamp, not less than from its last stamp to
// our receiving. It is rounded to what is certain, and coarsely, so that two
// measurements of a clock that is right agree.
func clockOffset(sent, got time.Time, begin, end string) (string, bool) {
	first, fine, ok1 := hostStamp(begin)
	last, _, ok2 := hostStamp(end)
	if !ok1 || !ok2 {
		return "", false
	}
	high := first.Add(fine).Sub(sent)
	low := last.Sub(got)
	step := 100 * time.Millisecond
	for step < high-low {
		step *= 10
	}
	middle := (low + high) / 2
	return fmt.Sprintf("%d (within %d)", middle.Round(step).Milliseconds(), step.Milliseconds()), true
}

// hostStamp reads what "date +%s.%N" printed, and how fine it is.
func hostStamp(text string) (at time.Time, resolution time.Duration, ok bool) {
	whole, part, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, 0, false
	}
	nanos, err := strconv.ParseInt(part, 10, 64)
	if err != nil || len(part) != 9 { // busybox knows no %N
		return time.Unix(seconds, 0), time.Second, true
	}
	return time.Unix(seconds, nanos), 0, true
}
