package metrics_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"specrun/experiments/metrics"
	"specrun/experiments/metrics/metricstest"
)

// want maps "metric unit" to the values that must be read, in JSON form.
type want map[string]string

func TestKinds(t *testing.T) {
	tests := map[string]struct {
		engine, kind string
		text         string
		want         want
		check        func(*testing.T, *metrics.Report)
	}{
		"sglang 0.4.6": {"sglang", "server_log",
			"[2025-05-01 00:00:01 TP0] Decode batch. #running-req: 2, #token: 900, token usage: 0.02, accept len: 2.10, gen throughput (token/s): 88.10, #queue-req: 0\n",
			want{"accept_len tokens/step": "[2.1]", "gen_throughput tok/s": "[88.1]", "running_req requests": "[2]"}, nil},
		"sglang with counter": {"sglang", "server_log",
			"[2025-11-01 00:00:01] Decode batch [1234], #running-req: 2, #token: 900, token usage: 0.02, cuda graph: False, gen throughput (token/s): 88.10, #queue-req: 1, \n",
			want{"gen_throughput tok/s": "[88.1]", "cuda_graph word": `["False"]`, "accept_len tokens/step": "[]"}, nil},
		"sglang sliding window": {"sglang", "server_log",
			"[2025-11-01 00:00:01] Decode batch, #running-req: 2, #full token: 900, full token usage: 0.02, #swa token: 90, swa token usage: 0.11, accept len: 3.00, accept rate: 0.66, block accept len: 9.00, cuda graph: True, gen throughput (token/s): 88.10, #queue-req: 1\n",
			want{"full_token_usage ratio": "[0.02]", "swa_token_usage ratio": "[0.11]", "token_usage ratio": "[]", "accept_len tokens/step": "[3]"}, nil},
		"record quoted in a prompt": {"sglang", "server_log",
			"[2025-11-01 00:00:01] Receive: obj=GenerateReqInput(text='what is [2025-11-01 00:00:01 TP0] Decode batch. #running-req: 1, #token: 5, token usage: 0.00, accept len: 8.88, gen throughput (token/s): 88888.00, #queue-req: 0', sampling_params={})\n" +
				"[2025-11-01 00:00:02 TP0] Decode batch. #running-req: 1, #token: 5, token usage: 0.00, accept len: 2.00, gen throughput (token/s): 90.00, #queue-req: 0\n",
			want{"accept_len tokens/step": "[2]", "gen_throughput tok/s": "[90]"}, nil},
		"glued to a progress bar": {"sglang", "server_log",
			"100%|##########| 2/2 [00:02<00:00,  1.50s/it][2025-11-01 00:00:02 TP0] Decode batch. #running-req: 1, #token: 5, token usage: 0.00, accept len: 2.00, gen throughput (token/s): 90.00, #queue-req: 0\n",
			want{"accept_len tokens/step": "[2]"}, nil},
		"cut inside the last number": {"sglang", "server_log",
			"[2025-11-01 00:00:02 TP0] Decode batch. #running-req: 1, #token: 5, token usage: 0.00, accept len: 2.00, gen throughput (token/s): 90.00, #queue-req: 0, \n" +
				"[2025-11-01 00:00:03 TP0] Decode batch. #running-req: 1, #token: 5, token usage: 0.00, accept len: 2.10, gen throughput (token/s): 9",
			want{"accept_len tokens/step": "[2]", "gen_throughput tok/s": "[90]"}, func(t *testing.T, r *metrics.Report) {
				if r.TornRecords != 1 || !r.TruncatedLastLine {
					t.Errorf("torn %d, truncated %v", r.TornRecords, r.TruncatedLastLine)
				}
			}},
		"two starts with banners": {"sglang", "server_log",
			args + ready + decode + args + ready + decode + decode,
			want{"gen_throughput tok/s": "[90 90 90]"}, func(t *testing.T, r *metrics.Report) {
				if fmt.Sprint(r.Runs) != "[{1 3} {4 7}]" {
					t.Errorf("runs %v", r.Runs)
				}
				if s, _ := r.Find("gen_throughput", map[string]string{"run": "2"}); len(s.Values) != 2 {
					t.Errorf("second start: %v", s.Values)
				}
			}},
		"profiler without headers, cut at its start": {"sglang", "profiler",
			"  target verify:     12.87 ms/cyc\n  other:  0.62 ms/cyc\n  TOTAL:  20.14 ms/cyc\n  draft steps: 5.00 ms/cyc\n  target verify: 12.00 ms/cyc\n  draft re-extend: 1.00 ms/cyc\n  other: 1.00 ms/cyc\n  TOTAL: 19.00 ms/cyc\n  accept length: 1.87\n  draft steps: 5.00 ms/cyc\n",
			want{"cycle_total ms/cyc": "[20.14 19]", "cycle_draft ms/cyc": "[5]", "cycle_verify ms/cyc": "[12.87 12]", "accept_len tokens/step": "[1.87]"},
			func(t *testing.T, r *metrics.Report) {
				if r.IncompleteBlocks != 1 {
					t.Errorf("incomplete %d", r.IncompleteBlocks)
				}
			}},
		"profiler with NaN": {"sglang", "profiler",
			"[eagle-prof] cycles 1-100 (last 100 cycles)\n  draft: nan ms/cyc\n  target verify: 12.00 ms/cyc\n  TOTAL: inf ms/cyc\n",
			want{"cycle_total ms/cyc": `["Inf"]`, "cycle_draft ms/cyc": `["NaN"]`}, nil},
		"profiler restart with banner": {"sglang", "profiler",
			args + plain + args + plain, want{"cycle_total ms/cyc": "[20.14 20.14]"}, func(t *testing.T, r *metrics.Report) {
				if len(r.Runs) != 2 || r.Runs[1].First != 9 {
					t.Errorf("runs %v", r.Runs)
				}
			}},
		"profiler rows of two writers in one line": {"sglang", "profiler",
			"  TOTAL:             20.14 ms/cyc  TOTAL:             20.51 ms/cyc\n", want{"cycle_total ms/cyc": "[20.14 20.51]"}, nil},
		"accept length outside a block": {"sglang", "server_log", decode + "  accept length: 9.99\n", want{"accept_len tokens/step": "[]"}, nil},

		"vllm V0": {"vllm", "server_log",
			"INFO 02-20 10:00:00 metrics.py:455] Avg prompt throughput: 11.5 tokens/s, Avg generation throughput: 40.2 tokens/s, Running: 1 reqs, Swapped: 0 reqs, Pending: 3 reqs, GPU KV cache usage: 0.1%, CPU KV cache usage: 0.0%.\n" +
				"INFO 02-20 10:00:00 metrics.py:477] Speculative metrics: Draft acceptance rate: 0.624, System efficiency: 0.405, Number of speculative tokens: 4, Number of accepted tokens: 4127, Number of draft tokens: 6612, Number of emitted tokens: 3352.\n",
			want{"gen_throughput tok/s": "[40.2]", "prompt_throughput tok/s": "[11.5]", "queue_req requests": "[3]", "draft_acceptance_rate ratio": "[0.624]",
				"accepted_tokens tokens": "[4127]", "draft_tokens tokens": "[6612]", "emitted_tokens tokens": "[3352]"}, nil},
		"vllm bench with speculation": {"vllm-bench", "bench_output", `============ Serving Benchmark Result ============
Successful requests:                     80
Failed requests:                         2
Maximum request concurrency:             4
Benchmark duration (s):                  20.51
Output token throughput (tok/s):         998.44
Peak output token throughput (tok/s):    1240.00
Total Token throughput (tok/s):          1,886.26
---------------Time to First Token----------------
Mean TTFT (ms):                          40.20
P99 TTFT (ms):                           88.10
-----Time per Output Token (excl. 1st token)------
Mean TPOT (ms):                          3.84
---------------Speculative Decoding---------------
Acceptance rate (%):                     58.40
Acceptance length:                       2.75
Drafts:                                  7442
Draft tokens:                            22326
Accepted tokens:                         13038
Per-position acceptance (%):
  Position 0:                            80.20
  Position 1:                            57.10
==================================================
`, want{"completed requests": "[80]", "failed requests": "[2]", "output_throughput tok/s": "[998.44]", "peak_output_throughput tok/s": "[1240]", "total_throughput tok/s": "[1886.26]",
			"ttft_p99 ms": "[88.1]", "tpot_mean ms": "[3.84]", "draft_acceptance_rate percent": "[58.4]", "accept_len tokens/step": "[2.75]",
			"per_position_acceptance percent": "[80.2 57.1]", "max_concurrency requests": "[4]", "accepted_tokens tokens": "[13038]"}, nil},
		"sglang bench cut in the middle": {"sglang-bench", "bench_output",
			"============ Serving Benchmark Result ============\nBackend:                                 sglang\nSuccessful requests:                     16\nOutput token throughput (tok/s):         93.",
			want{"completed requests": "[16]", "output_throughput tok/s": "[]"}, nil},
		"genai-perf table": {"genai-perf", "bench_output", `                              NVIDIA GenAI-Perf | LLM Metrics
┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┓
┃                         Statistic ┃      avg ┃      p99 ┃
┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━┩
│          Time to first token (ms) │    16.26 │    28.80 │
│          Inter token latency (ms) │     1.85 │     2.40 │
│              Request latency (ms) │ 1,499.16 │      N/A │
│ Output token throughput (per sec) │   126.68 │      N/A │
│      Request throughput (per sec) │     3.81 │      N/A │
└───────────────────────────────────┴──────────┴──────────┘
`, want{"ttft_mean ms": "[16.26]", "ttft_p99 ms": "[28.8]", "request_latency_mean ms": "[1499.16]", "output_throughput tok/s": "[126.68]", "request_throughput req/s": "[3.81]"}, nil},
		"genai-perf CSV": {"genai-perf", "bench_output",
			"Metric,avg,min,max,p99\nTime To First Token (ms),\"1,016.26\",1,2,28.80\n\nMetric,Value\nOutput Token Throughput (per sec),126.68\n",
			want{"ttft_mean ms": "[1016.26]", "ttft_p99 ms": "[28.8]", "output_throughput tok/s": "[126.68]"}, nil},
		"genai-perf JSON": {"genai-perf", "bench_output",
			`{"request_throughput": {"unit": "requests/sec", "avg": 3.8}, "time_to_first_token": {"unit": "ms", "avg": 16.2, "p99": 28.8}, "output_token_throughput": {"unit": "tokens/sec", "avg": 126.7}}`,
			want{"ttft_p99 ms": "[28.8]", "output_throughput tok/s": "[126.7]"}, nil},
		"guidellm JSON": {"guidellm", "bench_output",
			`{"benchmarks": [{"metrics": {"requests_per_second": {"successful": {"mean": 3.5}}, "time_to_first_token_ms": {"successful": {"mean": 40.5, "median": 39.0, "percentiles": {"p99": 80.0}}}, "request_totals": {"successful": 12, "errored": 1}}}]}`,
			want{"request_throughput req/s": "[3.5]", "ttft_p99 ms": "[80]", "completed requests": "[12]", "failed requests": "[1]"}, nil},
		"pretty JSON values behind each other, one cut": {"sglang-bench", "bench_output",
			"{\n \"backend\": \"sglang\",\n \"completed\": 3,\n \"output_throughput\": Infinity\n}\n{\n \"backend\": \"sglang\",\n \"completed\": 4\n}\n{\n \"backend\": \"sgl",
			want{"completed requests": "[3 4]", "output_throughput tok/s": `["Inf"]`}, func(t *testing.T, r *metrics.Report) {
				if fmt.Sprint(r.BadLines) != "[10]" || !r.TruncatedLastLine {
					t.Errorf("bad lines %v, truncated %v", r.BadLines, r.TruncatedLastLine)
				}
			}},
		"nvidia-smi CSV": {"nvidia-smi", "gpu_status",
			"index, name, memory.used [MiB], memory.total [MiB], utilization.gpu [%], power.draw [W]\n0, NVIDIA H200, 120 MiB, 143771 MiB, 5 %, 78.10 W\n1, NVIDIA H200, 4 MiB, 143771 MiB, [N/A], [Not Supported]\n",
			want{"gpu_memory_used MiB": "[120 4]", "gpu_memory_total MiB": "[143771 143771]", "gpu_util percent": "[5 null]", "power_draw W": "[78.1 null]"}, nil},
		"nothing known":          {"any", "server_log", "hello\nworld\n", want{}, nil},
		"JSON of something else": {"any", "bench_output", "{\"a\": 1}\n", want{}, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rep, err := metrics.Parse(strings.NewReader(tt.text), "x")
			if err != nil {
				t.Fatal(err)
			}
			got := asJSON(t, rep)
			if rep.Engine != tt.engine || rep.Kind != tt.kind {
				t.Errorf("%s %s, want %s %s", rep.Engine, rep.Kind, tt.engine, tt.kind)
			}
			for key, text := range tt.want {
				metric, unit, _ := strings.Cut(key, " ")
				var values []any
				if err := json.Unmarshal([]byte(strings.ReplaceAll(text, " ", ",")), &values); err != nil {
					t.Fatal(err)
				}
				if have := metricstest.Values(got, metric, unit, nil); !reflect.DeepEqual(have, values) {
					t.Errorf("%s: %v, want %v", key, have, values)
				}
			}
			if rep.Crash != nil {
				t.Errorf("crash %+v", rep.Crash)
			}
			if tt.check != nil {
				tt.check(t, rep)
			}
		})
	}
}
