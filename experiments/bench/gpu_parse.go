package bench

import (
	"math"
	"regexp"
	"strconv"
	"strings"
)

// gpuFields are what is asked for each GPU, in the order of gpuRow's cells. The
// names differ between drivers: replaced gives the other one.
var gpuFields = [...]string{"index", "uuid", "clocks.sm", "clocks.mem", "power.draw", "temperature.gpu", "clocks_event_reasons.active"}

// Old names of fields: a driver before 535 knows the second one only.
var replaced = map[string]string{"clocks_event_reasons.active": "clocks_throttle_reasons.active"}

var unknownField = regexp.MustCompile(`^Field "([^"]+)" is not a valid field to query`)

// withoutField is fields as to ask again after the driver refused one: under
// its old name, or without it. false when that one was not among them.
func withoutField(fields []string, refused string) ([]string, bool) {
	out := make([]string, 0, len(fields))
	for _, f := range fields {
		if f != refused {
			out = append(out, f)
		} else if old := replaced[f]; old != "" {
			out = append(out, old)
		}
	}
	return out, len(out) != len(fields) || strings.Join(out, ",") != strings.Join(fields, ",")
}

// parseGPU reads one line of "--format=csv,noheader,nounits". false for a line
// that is none, such as a warning.
func parseGPU(fields []string, line string, atUs int64) (s GPUSample, uuid string, ok bool) {
	cells := strings.Split(line, ",")
	s = GPUSample{AtUs: atUs, Index: -1, SM: math.NaN(), Mem: math.NaN(), Power: math.NaN(), Temp: math.NaN()}
	if len(cells) != len(fields) {
		return s, "", false
	}
	for i, field := range fields {
		cell := strings.TrimSpace(cells[i])
		switch field {
		case "index":
			n, err := strconv.Atoi(cell)
			if err != nil || n < 0 {
				return s, "", false
			}
			s.Index = n
		case "uuid":
			uuid = cell
		case "clocks.sm":
			s.SM = gpuNumber(cell)
		case "clocks.mem":
			s.Mem = gpuNumber(cell)
		case "power.draw":
			s.Power = gpuNumber(cell)
		case "temperature.gpu":
			s.Temp = gpuNumber(cell)
		default:
			s.Reasons = gpuReasons(cell)
		}
	}
	return s, uuid, s.Index >= 0
}

// gpuNumber is NaN for "[N/A]", "[Not Supported]" and the like. Some drivers
// leave the unit in spite of nounits.
func gpuNumber(cell string) float64 {
	number, _, _ := strings.Cut(cell, " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// gpuReasons reads the bits of nvmlClocksEventReasons.
func gpuReasons(cell string) []string {
	bits, err := strconv.ParseUint(cell, 0, 64)
	if err != nil {
		return nil
	}
	var out []string
	for _, r := range []struct {
		bit  uint64
		name string
	}{{0x4, "power"}, {0x8, "hw"}, {0x10, "sync-boost"}, {0x20, "thermal"}, {0x40, "hw-thermal"}, {0x80, "power-brake"}, {0x100, "display"}} {
		if bits&r.bit != 0 {
			out = append(out, r.name)
		}
	}
	return out
}

// appFields are asked for each process; the name comes last, it may hold commas.
const appFields = "pid,gpu_uuid,used_memory,process_name"

// parseApp reads one line about a process.
func parseApp(line string) (GPUProcess, bool) {
	cells := strings.SplitN(line, ",", 4)
	if len(cells) != 4 {
		return GPUProcess{}, false
	}
	for i := range cells {
		cells[i] = strings.TrimSpace(cells[i])
	}
	pid, err := strconv.Atoi(cells[0])
	if err != nil || pid <= 0 {
		return GPUProcess{}, false
	}
	p := GPUProcess{PID: pid, GPU: cells[1], Name: cells[3]}
	if mib := gpuNumber(cells[2]); !math.IsNaN(mib) {
		p.MiB = mib
	}
	return p, true
}
