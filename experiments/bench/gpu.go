package bench

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"specrun/experiments/record"
)

// Watch names what the worker looks at on its own host while it measures: the
// GPUs, who else uses them, and the folders of compiled kernels.
type Watch struct {
	Session int      `json:"session,omitempty"` // of the server; its processes are no neighbours. 0 unknown: nobody is one
	GPUs    []string `json:"gpus,omitempty"`    // indexes or UUIDs; none: those of the session's processes, else all
	Caches  []string `json:"caches,omitempty"`  // folders, absolute or with a leading "~/"
}

// Surroundings is what happened on the host during the measured part beside the
// load. All of it is empty where nobody watched, or there was no nvidia-smi.
type Surroundings struct {
	GPU        []GPUSample  `json:"gpu,omitempty"`
	Neighbours []GPUProcess `json:"gpu_neighbours,omitempty"`
	// UsersRead says that the processes on the GPUs could be read and told from
	// the server's own, so that no neighbour means none.
	UsersRead bool    `json:"gpu_users_read,omitempty"`
	Caches    []Cache `json:"compile_caches,omitempty"`
}

// GPUSample is one reading of one GPU. Numbers that the driver does not tell are
// NaN, and null in JSON.
type GPUSample struct {
	AtUs  int64 // the worker's clock, when the reading arrived
	Index int
	SM    float64 // clock, MHz
	Mem   float64 // clock, MHz
	Power float64 // W
	Temp  float64 // degrees Celsius
	// Reasons say what holds the clock down: the active ones of power, thermal,
	// hw-thermal, power-brake, hw, sync-boost, display. Idleness and a clock set
	// by the user are none.
	Reasons []string
}

type gpuSampleJSON struct {
	AtUs    int64    `json:"at_us"`
	Index   int      `json:"index"`
	SM      *float64 `json:"sm_mhz"`
	Mem     *float64 `json:"mem_mhz"`
	Power   *float64 `json:"power_w"`
	Temp    *float64 `json:"temp_c"`
	Reasons []string `json:"reasons,omitempty"`
}

// MarshalJSON writes unknown numbers as null.
func (s GPUSample) MarshalJSON() ([]byte, error) {
	known := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	return json.Marshal(gpuSampleJSON{s.AtUs, s.Index, known(s.SM), known(s.Mem), known(s.Power), known(s.Temp), s.Reasons})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (s *GPUSample) UnmarshalJSON(b []byte) error {
	var j gpuSampleJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return err
	}
	known := func(v *float64) float64 {
		if v == nil {
			return math.NaN()
		}
		return *v
	}
	*s = GPUSample{j.AtUs, j.Index, known(j.SM), known(j.Mem), known(j.Power), known(j.Temp), j.Reasons}
	return nil
}

// Throttled says that power or heat held the clock down.
func (s GPUSample) Throttled() bool {
	return slices.ContainsFunc(s.Reasons, func(r string) bool { return r != "sync-boost" && r != "display" })
}

// GPUProcess is a process of somebody else that held memory on one of the GPUs.
type GPUProcess struct {
	PID  int     `json:"pid"`
	User string  `json:"user,omitempty"`
	Name string  `json:"name"`
	MiB  float64 `json:"mib"` // 0 unknown
	GPU  string  `json:"gpu"` // UUID
}

func (p GPUProcess) String() string {
	text := p.Name
	if p.User != "" {
		text = p.User + "'s " + text
	}
	if p.MiB > 0 {
		text += fmt.Sprintf(", %.0f MiB", p.MiB)
	}
	return fmt.Sprintf("%s (pid %d)", text, p.PID)
}

// Throttled counts the samples whose clock power or heat held down.
func (s Surroundings) Throttled() (throttled, samples int) {
	for _, g := range s.GPU {
		if g.Throttled() {
			throttled++
		}
	}
	return throttled, len(s.GPU)
}

// ThrottleReasons are the reasons seen, most frequent first, with their share of
// the samples: "power 34%, thermal 2%". "" when there was none.
func (s Surroundings) ThrottleReasons() string {
	count := map[string]int{}
	for _, g := range s.GPU {
		for _, r := range g.Reasons {
			count[r]++
		}
	}
	names := make([]string, 0, len(count))
	for r := range count {
		names = append(names, r)
	}
	slices.SortFunc(names, func(a, b string) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return strings.Compare(a, b)
	})
	for i, r := range names {
		names[i] = fmt.Sprintf("%s %.0f%%", r, 100*float64(count[r])/float64(len(s.GPU)))
	}
	return strings.Join(names, ", ")
}

// SourceGPU is the source of what nvidia-smi said.
const SourceGPU = "nvidia-smi"

// gpuReading is one quantity of a sample.
type gpuReading struct {
	name, unit string
	of         func(GPUSample) float64
}

var gpuReadings = [...]gpuReading{
	{"gpu_clock", "MHz", func(s GPUSample) float64 { return s.SM }},
	{"gpu_power", "W", func(s GPUSample) float64 { return s.Power }},
	{"gpu_temp", "C", func(s GPUSample) float64 { return s.Temp }},
}

// GPUMetrics are gpu_clock_mean (MHz), gpu_power_mean (W) and gpu_temp_max (C)
// over all samples and GPUs; absent when nothing was sampled.
func (s Surroundings) GPUMetrics() []record.Metric {
	var out []record.Metric
	for _, r := range gpuReadings {
		sum, most, n := 0.0, math.Inf(-1), 0
		for _, g := range s.GPU {
			if v := r.of(g); !math.IsNaN(v) {
				sum, most, n = sum+v, max(most, v), n+1
			}
		}
		if n == 0 {
			continue
		}
		m := record.Metric{Name: r.name + "_mean", Unit: r.unit, Value: sum / float64(n), N: n, Source: SourceGPU}
		if r.name == "gpu_temp" {
			m.Name, m.Value = r.name+"_max", most
		}
		out = append(out, m)
	}
	return out
}

// maxSeries bounds what is stored of one quantity of one GPU; the report has
// all of it.
const maxSeries = 120

// GPUSamples are the readings as samples gpu_clock, gpu_power and gpu_temp with
// the label "gpu", evenly thinned to 120 for each GPU. Seq counts from 1.
func (s Surroundings) GPUSamples() []record.Sample {
	byGPU := map[int][]GPUSample{}
	var indexes []int
	for _, g := range s.GPU {
		if byGPU[g.Index] == nil {
			indexes = append(indexes, g.Index)
		}
		byGPU[g.Index] = append(byGPU[g.Index], g)
	}
	slices.Sort(indexes)
	var out []record.Sample
	for _, index := range indexes {
		series := byGPU[index]
		step := (len(series) + maxSeries - 1) / maxSeries
		for i := 0; i < len(series); i += step {
			for _, r := range gpuReadings {
				if v := r.of(series[i]); !math.IsNaN(v) {
					out = append(out, record.Sample{Seq: len(out) + 1, AtUs: series[i].AtUs, Name: r.name, Unit: r.unit, Value: v, Source: SourceGPU,
						Labels: map[string]string{"gpu": strconv.Itoa(index)}})
				}
			}
		}
	}
	return out
}
